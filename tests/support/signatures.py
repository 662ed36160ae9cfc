"""How every public function is called."""

POPULATION = "population=<Population.CERTIFIED: 'certified'>"

SIGNATURES = {
    "ace_attack": "(model, x, y, *, eta, omega, epsilon, **settings)",
    "adaptive_calibration_error": "(confidence, correct, *, n_bins=15)",
    "allowed_failures": "(inputs, *, alpha=None, delta)",
    "worstcase.approximate_certified_calibration_error": (
        "(lower, upper=None, correct=None, *, confidence=None, method='admm', n_bins=15, edges=None, **settings)"
    ),
    "certificates.average_certified_radius": "(radius, correct)",
    "certificates.intervals_from_lipschitz": (
        "(logits, labels, *, constant, radius, last_layer='global', temperature=1.0, rounding=0.0, index=None)"
    ),
    "certificates.intervals_from_logits": "(lower, upper, *, labels, predicted, **stated)",
    "certificates.intervals_from_margins": (
        "(lower, upper, *, labels, predicted, confidence=None, index=None, radius=nan, "
        "norm=<Norm.DECLARED: 'declared'>, alpha=0.0, domain=<Domain.EVERYWHERE: 'everywhere'>, method='margins')"
    ),
    "certificates.intervals_from_table": ("(table, *, radius=None, norm=None, alpha=None, domain=None, method=None)"),
    "certificates.intervals_from_votes": (
        "(votes, labels, *, changed, radius=nan, norm=<Norm.DECLARED: 'declared'>, "
        "domain=<Domain.EVERYWHERE: 'everywhere'>, index=None)"
    ),
    "metrics.brier_score": "(probs, labels)",
    "certified_accuracy": "(radius, correct, *, at)",
    "worstcase.any_binning_calibration_error": (
        f"(lower, upper=None, correct=None, *, {POPULATION}, n_bins=15, uncertified=0, failures=0)"
    ),
    "worstcase.equal_count_calibration_error": (
        f"(lower, upper=None, correct=None, *, {POPULATION}, n_bins=15, uncertified=0, failures=0, method='bound')"
    ),
    "worstcase.certified_auroc": f"(lower, upper=None, correct=None, *, {POPULATION}, uncertified=0, failures=0)",
    "certified_brier_score": f"(lower, upper=None, correct=None, *, {POPULATION})",
    "certified_calibration_error": (
        f"(lower, upper=None, correct=None, *, {POPULATION}, n_bins=15, edges=None, uncertified=0)"
    ),
    "worstcase.certified_operating_point": (
        f"(lower, upper=None, correct=None, *, threshold, confidence=None, {POPULATION}, uncertified=0, failures=0)"
    ),
    "worstcase.operating_curve": (
        f"(lower, upper=None, correct=None, *, thresholds=None, confidence=None, {POPULATION}, uncertified=0, "
        "failures=0)"
    ),
    "worstcase.certified_threshold": (
        f"(lower, upper=None, correct=None, *, accuracy=None, risk=None, confidence=None, {POPULATION}, uncertified=0, "
        "failures=0)"
    ),
    "worstcase.certified_log_score": f"(lower, upper=None, correct=None, *, {POPULATION})",
    "certified_radius": "(votes, trials, *, sigma, alpha)",
    "proportions.clopper_pearson": "(successes, trials, *, alpha)",
    "collect_evidence": (
        "(model, data, *, sigma, n=100000, n0=100, seed=0, chunk=250, stages=None, stop=None, plan=None, "
        "outputs='logits', temperatures=None, values=<Values.UNIT: 'unit'>, device=None, precision='float32', "
        "batch_size=None, fuse=False, "
        "compile=None, store=None, engine='local', progress=None, begin=None)"
    ),
    "confidence_bounds": (
        "(evidence, *, radius, alpha, method=<Method.CDF_CP: 'cdf-cp'>, split_alpha=True, "
        "prediction_share=0.5, runner_up=<RunnerUp.COMPLEMENT: 'complement'>, score_map=None)"
    ),
    "metrics.differentiable_calibration_error": "(confidence, correct, *, n_bins=15, edges=None, temperature=0.01)",
    "worstcase.differentiable_certified_calibration_error": (
        "(lower, upper, correct, *, n_bins=15, edges=None, uncertified=0)"
    ),
    "metrics.equal_count_edges": "(confidence, *, n_bins=15)",
    "evaluate": (
        "(evidence, *, radii=None, alpha=None, delta=0.001, method=<Method.CDF_CP: 'cdf-cp'>, split_alpha=True, "
        "prediction_share=0.5, runner_up=<RunnerUp.COMPLEMENT: 'complement'>, "
        "population=<Population.CERTIFIED: 'certified'>, n_bins=15, edges=None, approximations=(), "
        "recalibration=None, claim=<Claim.FAILURES: 'failures'>, open_at=None, threshold=0.8, accept_accuracy=None, "
        "groups=(), any_binning=False)"
    ),
    "expected_calibration_error": "(confidence, correct, *, n_bins=15, edges=None, rule=<BinRule.PAPER: 'paper'>)",
    "jointly_certified_brier_score": (f"(lower, upper=None, correct=None, *, {POPULATION}, failures, uncertified=0)"),
    "jointly_certified_calibration_error": (
        f"(lower, upper=None, correct=None, *, {POPULATION}, failures, n_bins=15, edges=None, uncertified=0)"
    ),
    "load_evidence": "(path)",
    "metrics.log_score": "(probs, labels)",
    "population_bound": (
        "(lower, upper=None, correct=None, *, alpha=None, delta, n_bins=15, edges=None, uncertified=0)"
    ),
    "recalibrate": (
        "(lower, upper=None, correct=None, *, confidence=None, clean_weight=None, "
        "method=<MapKind.ISOTONIC: 'isotonic'>, objective=None, "
        "n_bins=15, edges=None, on_failure=<OnFailure.RAISE: 'raise'>)"
    ),
    "reliability_curve": "(confidence, correct, *, n_bins=15, edges=None, alpha=0.05)",
    "save_evidence": "(evidence, path, *, compact=False, share_inputs=False)",
    "top_label_brier_score": "(confidence, correct)",
    "metrics.top_label_log_score": "(confidence, correct)",
}
