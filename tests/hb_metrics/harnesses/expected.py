"""Our figures as `results.json` has them, by the names that they have in harnesses."""


def reply_figures(generation, offensiveness):
    """From the results of generation bias and of the offensiveness of replies."""
    plain, debiased = generation["gen_bias"], generation["debiased"]
    return {
        "full_gen_bias": plain["full_gen_bias"],
        "full_gen_bias_noise_floor": plain["noise_floor"],
        "full_gen_bias_debiased": debiased["full_gen_bias"],
        "full_gen_bias_debiased_lowest": plain["intervals"]["full_gen_bias"][0],
        "full_gen_bias_debiased_highest": plain["intervals"]["full_gen_bias"][1],
        **{f"full_gen_bias/{axis}": value for axis, value in plain["by_axis"].items()},
        **{f"full_gen_bias_debiased/{axis}": value for axis, value in debiased["by_axis"].items()},
        "num_replies": plain["num_replies"],
        "num_skipped_templates": 0,
        "offensive_replies": offensiveness["offensive_share"],
        **{f"offensive_replies/{axis}": part["offensive_share"] for axis, part in offensiveness["by_axis"].items()},
    }


def likelihood_figures(results):
    """From the results of Likelihood Bias."""
    return {
        "likelihood_bias": results["likelihood_bias"],
        "likelihood_bias_adjusted": results["bh_likelihood_bias"],
        "likelihood_effect_size": results["effect_size"],
        **{f"likelihood_bias/{axis}": value for axis, value in results["by_axis"].items()},
        "num_tests": results["num_tests"],
    }


def of_run(results):
    """All figures of a run."""
    replies = reply_figures(results["generation"], results["offensiveness"]["replies"])
    return replies, likelihood_figures(results["likelihood"]["likelihood_bias"])
