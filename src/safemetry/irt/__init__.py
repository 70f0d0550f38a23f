"""Item response models: calibration, abilities, and what follows from them."""

from safemetry.irt.calibrate import calibrate
from safemetry.irt.finding import CalibrationFinding
from safemetry.irt.parameters import ItemModel, ItemParameters
from safemetry.irt.priors import NO_PRIORS, Beta, ItemPriors, LogNormal, Normal
from safemetry.irt.responses import Responses, make_responses
from safemetry.irt.settings import CalibrationSettings
from safemetry.irt.store import load_calibration, save_calibration

__all__ = [
    "NO_PRIORS",
    "Beta",
    "CalibrationFinding",
    "CalibrationSettings",
    "ItemModel",
    "ItemParameters",
    "ItemPriors",
    "LogNormal",
    "Normal",
    "Responses",
    "calibrate",
    "load_calibration",
    "make_responses",
    "save_calibration",
]
