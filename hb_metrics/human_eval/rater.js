"use strict";
// Shows one question at a time, about one or two replies. Answers are kept only in this browser.
const {study, rater, questions, screens} = JSON.parse(document.getElementById("data").textContent);
const steps = screens.flatMap((screen, at) => questions.map((question, which) => ({
  screen, question, task: screen.tasks[which], screenNumber: at + 1, questionNumber: which + 1,
})));
const KEY = `human-eval ${study} ${rater}`;
const TOO_FAST = 200;  // milliseconds; a second click within this time is not an answer to the next question
const byId = (id) => document.getElementById(id);
const buttons = [...document.querySelectorAll("[id^=choose-]")];  // the first button is choice 1

const PATIENCE = 5000;  // milliseconds to wait for the browser's database, which is slow on a busy machine
const LESS_PATIENCE = 200;  // the same, after the database has not answered in time

// The state is {session, answers: {task: {choice, seconds, change}}}. A session is the id of a browser. If a rater has two
// sessions, they may be two people.
// There are two copies of the state: localStorage is fast, and IndexedDB survives a crash. A copy that seems empty may
// be unreadable for a short time only. Nothing is therefore written before the first answer, and the stored answers are
// read before each write.
let state = {session: newSession(), answers: {}};
let keeps = true;
let patience = PATIENCE;
let current = 0;
let shownAt = Infinity;  // Infinity while an answer is being kept, so further clicks are ignored

function newSession() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function takeOver(kept) {
  if (typeof kept?.session !== "string" || !kept.answers) return;
  state.session = kept.session;
  for (const {task} of steps) {
    const answer = kept.answers[task];
    const isNewer = answer?.change > (state.answers[task]?.change ?? 0);
    if (isNewer && buttons[answer.choice - 1]) state.answers[task] = answer;
  }
}

function takeOverLocal() {
  try {
    takeOver(JSON.parse(localStorage.getItem(KEY)));
  } catch {
    // This copy is unreadable or damaged. The other copy may be intact.
  }
}

function openDatabase() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open("human-eval", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("states");
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function exchangeWithDatabase(mode) {
  const database = await openDatabase();
  await new Promise((resolve, reject) => {
    const transaction = database.transaction("states", mode, {durability: "strict"});
    const states = transaction.objectStore("states");
    const request = states.get(KEY);
    request.onsuccess = () => {
      takeOver(request.result);
      if (mode === "readwrite") states.put(state, KEY);
    };
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error);
  }).finally(() => database.close());
}

// Returns whether the database answered in time.
async function exchange(mode) {
  const late = new Promise((resolve) => setTimeout(() => resolve("late"), patience));
  const outcome = await Promise.race([exchangeWithDatabase(mode).then(() => "kept", () => "failed"), late]);
  patience = outcome === "late" ? LESS_PATIENCE : PATIENCE;
  return outcome === "kept";
}

async function keep() {
  takeOverLocal();
  keeps = true;
  try {
    localStorage.setItem(KEY, JSON.stringify(state));
  } catch {
    keeps = false;
  }
  keeps = await exchange("readwrite") || keeps;
  byId("not-kept").hidden = keeps;
}

const answered = () => steps.filter(({task}) => task in state.answers).length;
const firstOpen = () => steps.findIndex(({task}) => !(task in state.answers));

function show(name) {
  for (const section of ["intro", "rating", "end"]) byId(section).hidden = section !== name;
  window.scrollTo(0, 0);
}

function ask(index) {
  current = index;
  const {screen, question, task, screenNumber, questionNumber} = steps[index];
  show("rating");
  byId("bar").max = steps.length;
  byId("bar").value = answered();
  const part = questions.length > 1 ? `, question ${questionNumber} of ${questions.length}` : "";
  byId("count").textContent = `${screenNumber} of ${screens.length}${part}`;
  byId("question").textContent = question.text;
  for (const prompt of document.querySelectorAll(".prompt")) prompt.textContent = screen.prompt;
  screen.replies.forEach((reply, at) => {
    byId(`reply-${at + 1}`).textContent = reply;  // as text and not as HTML, because replies are untrusted
  });
  buttons.forEach((button, at) => {
    const chosen = state.answers[task]?.choice === at + 1;
    button.setAttribute("aria-pressed", String(chosen));
    button.closest(".choice").classList.toggle("chosen", chosen);
  });
  byId("back").disabled = index === 0;
  byId("next").hidden = !(task in state.answers);
  byId("question").focus({preventScroll: true});
  shownAt = performance.now();
}

async function choose(choice) {
  const milliseconds = performance.now() - shownAt;
  if (milliseconds < TOO_FAST) return;
  shownAt = Infinity;
  const {task} = steps[current];
  const seconds = (state.answers[task]?.seconds ?? 0) + milliseconds / 1000;
  const change = 1 + Math.max(0, ...Object.values(state.answers).map((answer) => answer.change));
  state.answers[task] = {choice, seconds: Math.round(10 * seconds) / 10, change};
  byId("saved").textContent = "";
  await keep();  // the next question appears only after this answer has been kept
  if (shownAt === Infinity && !byId("rating").hidden) forward();  // otherwise, the rater has left this question meanwhile
}

function forward() {
  if (current + 1 < steps.length) ask(current + 1);
  else if (firstOpen() >= 0) ask(firstOpen());
  else finish();
}

function back() {
  if (current > 0) ask(current - 1);
}

function asText() {
  return steps.filter(({task}) => task in state.answers).map(({task, question}) => {
    const {choice, seconds} = state.answers[task];
    return JSON.stringify({study, rater, session: state.session, task, question: question.id, choice, seconds}) + "\n";
  }).join("");
}

function finish() {
  const number = answered();
  const done = number === steps.length;
  show("end");
  byId("end-title").textContent = done ? "You are done. Thank you!" : "You can stop here";
  byId("end-text").textContent = done
    ? `You answered all ${steps.length} questions. Save them in a file.`
    : `You answered ${number} of ${steps.length} questions. Save them in a file, or return to this page later to continue.`;
  byId("continue").textContent = done ? "Review my answers" : "Continue rating";
  byId("save").disabled = number === 0;
  byId("as-text").value = asText();
  byId("end-title").focus();
}

function save() {
  const name = `ratings-${study}-${rater}.jsonl`;
  const address = URL.createObjectURL(new Blob([asText()], {type: "application/jsonl"}));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  byId("saved").textContent = `${name}: ${answered()} answers saved.`;
}

function resume() {
  const open = firstOpen();
  ask(open < 0 ? 0 : open);
}

byId("start").addEventListener("click", resume);
byId("continue").addEventListener("click", resume);
buttons.forEach((button, at) => button.addEventListener("click", () => choose(at + 1)));
byId("back").addEventListener("click", back);
byId("next").addEventListener("click", forward);
byId("pause").addEventListener("click", finish);
byId("save").addEventListener("click", save);
document.addEventListener("keydown", (event) => {
  // A key that is held down, or a shortcut of the browser, is not an answer.
  if (byId("rating").hidden || event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
  const choice = buttons.length === 2 ? {ArrowLeft: 1, ArrowRight: 2}[event.key] ?? event.key : event.key;
  const action = buttons[choice - 1] ? () => choose(Number(choice)) : {b: back, B: back, Backspace: back}[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});
window.addEventListener("beforeunload", (event) => {
  if (!keeps && answered()) event.preventDefault();
});

async function begin() {
  takeOverLocal();
  await exchange("readonly");
  if (answered() === 0) takeOverLocal();  // on a busy machine, it can seem empty at first
  if (answered() === 0) {
    show("intro");
    byId("start").focus();
  } else if (firstOpen() < 0) finish();
  else resume();
}

begin();
