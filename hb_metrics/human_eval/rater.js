"use strict";
// Shows one question about one pair of replies at a time, and keeps the answers in this browser alone.
const {study, rater, questions, screens} = JSON.parse(document.getElementById("data").textContent);
const steps = screens.flatMap((screen, at) => questions.map((question, which) => ({
  screen, question, task: screen.tasks[which], screenNumber: at + 1, questionNumber: which + 1,
})));
const KEY = `human-eval ${study} ${rater}`;
const TOO_FAST = 200;  // milliseconds: a second tap or click of the same kind is no answer to the next question
const byId = (id) => document.getElementById(id);

// {session, answers: {task: {choice, seconds}}}; a session is a browser: two of one rater may be two people.
let state = {session: newSession(), answers: {}};
let keeps = true;
let current = 0;
let shownAt = 0;

function newSession() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function isState(kept) {
  return kept !== null && typeof kept === "object" && typeof kept.session === "string"
    && kept.answers !== null && typeof kept.answers === "object";
}

function load() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY));
    if (isState(kept)) {
      const known = steps.filter(({task}) => [1, 2].includes(kept.answers[task]?.choice));
      state = {session: kept.session, answers: Object.fromEntries(known.map(({task}) => [task, kept.answers[task]]))};
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) keeps = false;  // what was kept is damaged: begin anew
  }
  keep();
}

function keep() {
  try {
    localStorage.setItem(KEY, JSON.stringify(state));
  } catch {
    keeps = false;
  }
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
  for (const speaker of [1, 2]) {
    const chosen = state.answers[task]?.choice === speaker;
    byId(`reply-${speaker}`).textContent = screen.replies[speaker - 1];  // never as HTML: replies are shown as they are
    byId(`choose-${speaker}`).setAttribute("aria-pressed", String(chosen));
    byId(`choose-${speaker}`).closest("article").classList.toggle("chosen", chosen);
  }
  byId("back").disabled = index === 0;
  byId("next").hidden = !(task in state.answers);
  byId("question").focus({preventScroll: true});
  shownAt = performance.now();
}

function choose(speaker) {
  if (performance.now() - shownAt < TOO_FAST) return;
  const {task} = steps[current];
  const seconds = Math.round((performance.now() - shownAt) / 100) / 10;
  const before = state.answers[task]?.seconds ?? 0;
  state.answers[task] = {choice: speaker, seconds: Math.round(10 * (before + seconds)) / 10};
  byId("saved").textContent = "";
  keep();
  forward();
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
  const lines = steps.filter(({task}) => task in state.answers).map(({task, question}) => JSON.stringify({
    study, rater, session: state.session, task, question: question.id, ...state.answers[task],
  }));
  return lines.map((line) => line + "\n").join("");
}

function finish() {
  const number = answered();
  const done = number === steps.length;
  show("end");
  byId("end-title").textContent = done ? "That was all. Thank you!" : "You can stop here";
  byId("end-text").textContent = done
    ? `You answered all ${steps.length} questions. Save them in a file.`
    : `You answered ${number} of ${steps.length} questions. Save them in a file, or come back to this page later and go on.`;
  byId("continue").textContent = done ? "Look at my answers" : "Go on rating";
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
byId("choose-1").addEventListener("click", () => choose(1));
byId("choose-2").addEventListener("click", () => choose(2));
byId("back").addEventListener("click", back);
byId("next").addEventListener("click", forward);
byId("pause").addEventListener("click", finish);
byId("save").addEventListener("click", save);
document.addEventListener("keydown", (event) => {
  // A key held down, or one of the browser's own, is no answer.
  if (byId("rating").hidden || event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
  const action = {"1": () => choose(1), ArrowLeft: () => choose(1), "2": () => choose(2), ArrowRight: () => choose(2),
    b: back, B: back, Backspace: back}[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});
window.addEventListener("beforeunload", (event) => {
  if (!keeps && answered()) event.preventDefault();
});

load();
if (answered() === 0) show("intro");
else if (firstOpen() < 0) finish();
else resume();
if (answered() === 0) byId("start").focus();
