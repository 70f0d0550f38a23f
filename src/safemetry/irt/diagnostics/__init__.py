"""Whether a calibration holds: item and person residuals, dependence, nesting, priors."""
