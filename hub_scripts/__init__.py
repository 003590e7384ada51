"""The command `holistic-bias`, and scripts around the Hugging Face Hub and its local caches; nothing imports them."""
