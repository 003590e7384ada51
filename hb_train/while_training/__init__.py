"""Gen Bias while a model is trained: a callback for evaluations, and a reward."""
