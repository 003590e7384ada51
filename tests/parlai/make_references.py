"""Records what ParlAI gives for texts: token ids and logits of the random checkpoints of `checkpoints.py`.

    make .venv-parlai/.ready
    .venv-parlai/bin/python tests/parlai/make_references.py FOLDER

Runs in an environment with ParlAI 1.7.2, of its own because ParlAI asks for releases of 2022. Each checkpoint is made
and saved by ParlAI's agent (FOLDER/NAME/model and the files beside it), then loaded again from these files, and given
each text as the only turn of a conversation; first alone, then all in one padded batch. FOLDER/NAME.json gets the
options, the shapes of the weights, the token ids and the logits. Copied into `references/` they are what `make test`
compares with; `make test-long` runs this script again and compares with what it writes.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import checkpoints
import torch
from parlai.core.agents import create_agent
from parlai.core.message import Message
from parlai.core.params import ParlaiParser


def main(folder: Path) -> None:
    for name, settings in checkpoints.CASES.items():
        path = folder / name / "model"
        path.parent.mkdir(parents=True)
        checkpoints.write_vocabulary(path)
        agent = agent_of(path, settings)
        with torch.no_grad():
            shapes = {key: list(value.shape) for key, value in agent.model.state_dict().items()}
            weights = checkpoints.random_weights({key: shape for key, shape in shapes.items() if key != "START"})
            agent.model.load_state_dict(weights, strict=False)
        agent.save(str(path))
        agent = agent_of(path, settings)
        observations = [observe(agent, text) for text in checkpoints.TEXTS]
        alone = [logits(agent, [observation]) for observation in observations]
        # ParlAI makes no tokens of an empty text, and a row of padding if it is in a batch with others.
        alone = [row if len(made.get("text_vec", ())) else [] for made, row in zip(observations, alone, strict=True)]
        padded = iter(logits(agent, [made for made, row in zip(observations, alone, strict=True) if row]))
        record = {
            "made_with": f"ParlAI {version('parlai')}, torch {torch.__version__}",
            "opt": {key: agent.opt[key] for key in sorted(settings)},
            "labels": agent.class_list,
            "shapes": shapes,
            "rows": [
                {
                    "text": text,
                    "ids": observation["text_vec"].tolist() if row else None,
                    "logits": row[0] if row else None,
                    "logits_in_a_batch": next(padded) if row else None,
                }
                for text, observation, row in zip(checkpoints.TEXTS, observations, alone, strict=True)
            ],
        }
        (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def agent_of(path: Path, settings: dict):
    """The agent that ParlAI makes of these options, with the weights of the checkpoint if it is there."""
    parser = ParlaiParser(True, True)
    defaults = parser.parse_args(["--model", settings["model"], "--no-cuda", "--lr-scheduler", "none"])
    classes = path.parent / "personality_list.txt"
    opt = {**defaults, **settings, "model_file": str(path), "dict_file": f"{path}.dict"}
    if settings["classes"] is None:
        classes.write_text("".join(f"{style}\n" for style in checkpoints.STYLES), encoding="utf-8")
        opt["classes_from_file"] = str(classes)
    opt["init_model"] = str(path) if path.exists() else None
    opt["datatype"] = "valid"
    return create_agent(type(defaults)(opt))


def observe(agent, text: str) -> Message:
    """The text as the only turn of a conversation, with the token ids that the agent makes of it."""
    agent.reset()
    observation = agent.observe(Message({"text": text, "episode_done": True}))
    agent.self_observe(Message({"text": "", "episode_done": True}))
    return observation


def logits(agent, observations: list[Message]) -> list[list[float]]:
    """[texts that have any token] logits of one batch."""
    batch = agent.batchify(observations)
    if batch.text_vec is None:
        return []
    agent.model.eval()
    with torch.no_grad():
        return agent.score(batch).tolist()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
