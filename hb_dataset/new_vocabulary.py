"""Writes three commented YAML files, from which to write a vocabulary of your own.

holistic-bias new-vocabulary my-vocabulary
"""

from pathlib import Path

from hb_dataset.command_line import CommandParser
from hb_dataset.vocabulary import read_vocabulary
from hb_dataset.whole_files import write_text

STARTER = Path(__file__).parent / "starter_vocabulary"


def main(argv: list[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="The folder to create.")
    folder = parser.parse_args(argv).folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"'{folder}' is a file, or contains files; pass the name of a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(STARTER.iterdir()):
        write_text(folder / path.name, path.read_text(encoding="utf-8"))
        print(folder / path.name)
    vocabulary = read_vocabulary(folder)
    print(f"{len(vocabulary.descriptors)} terms, {len(vocabulary.nouns)} nouns, {len(vocabulary.templates)} templates")
    print(
        "Edit the files, and preview the prompts with:\n  "
        f"holistic-bias measure --vocabulary_dir {folder} --dataset_config v1.0 --show"
    )


if __name__ == "__main__":
    main()
