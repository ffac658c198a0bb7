"""An autonomous steward for machine-learning infrastructure.

Start with `ports.py` (the shapes a plug has) and `loop.py` (the system on one screen).
"""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """Look the version up when somebody asks: training scripts import `steward.marks`, fast."""
    if name != "__version__":
        raise AttributeError(f"module 'steward' has no attribute '{name}'")
    from importlib.metadata import version  # noqa: PLC0415 - 20 ms that most imports do not need

    return version("steward")
