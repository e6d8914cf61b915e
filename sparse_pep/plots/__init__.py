"""Pictures of fits, of their calibration, and of training."""

from sparse_pep.plots.calibration import plot_calibration, plot_calibration_draws, plot_reliability, plot_residuals
from sparse_pep.plots.fits import plot_classification_1d, plot_classification_2d, plot_posterior_1d, plot_posterior_2d
from sparse_pep.plots.training import plot_energy_trace, plot_importance, plot_inducing_points, plot_power_sweep, plot_relevance

__all__ = [
    "plot_calibration",
    "plot_calibration_draws",
    "plot_classification_1d",
    "plot_classification_2d",
    "plot_energy_trace",
    "plot_importance",
    "plot_inducing_points",
    "plot_posterior_1d",
    "plot_posterior_2d",
    "plot_power_sweep",
    "plot_relevance",
    "plot_reliability",
    "plot_residuals",
]
