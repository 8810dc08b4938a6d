"""Whether learning rates are scaled with the size of a network, and from which size."""

from ..io import checks
from ..network import AbstractNetwork, BaseSize
from ._optimiser import Optimiser

MUP, NOT_SCALED = "mup", "none"
RATE_SCALING = (MUP, NOT_SCALED)


def check_rate_scaling(given: str | None) -> None:
    """Refuse a name that is not known. None stands for the rule where there is one."""
    if given is not None and not (isinstance(given, str) and given in RATE_SCALING):
        raise checks.unknown("rate_scaling", given, RATE_SCALING)


def why_no_rule(network: AbstractNetwork, optimiser: Optimiser) -> str | None:
    """Return what has no rule for scaling rates, after "no rule for"; None if there is one."""
    return network.why_no_rate_rule if isinstance(optimiser, str) else "an optax transformation of your own"


def scaling_base(
    network: AbstractNetwork, optimiser: Optimiser, rate_scaling: str | None, base: BaseSize
) -> BaseSize | None:
    """Return the base size, or None if rates are not scaled. Where there is no rule, refuse "mup" and a base size that
    was given."""
    off = rate_scaling == NOT_SCALED
    missing = why_no_rule(network, optimiser)
    if missing is None and not off:
        return base
    if rate_scaling == MUP:
        raise checks.ArgumentError(
            "rate_scaling", f'= "{MUP}" has no rule for {missing}.', f'Use "{NOT_SCALED}", or leave it out.'
        )
    if base != BaseSize():
        why = "" if off else f": there is no rule for {missing}"
        raise checks.ArgumentError(
            "base_width" if base.width != BaseSize().width else "base_hidden_layers",
            f"has no effect, because learning rates are not scaled{why}.",
            "Leave it out.",
        )
    return None
