"""An autonomous steward for machine-learning infrastructure.

Start with `ports.py` (the shapes a plug has) and `loop.py` (the system on one screen).
"""

from importlib.metadata import version

__version__ = version("steward")
__all__ = ["__version__"]
