"""What every package has, whatever runs it: samples and what the source gave for them, facts,
``selftest.py``, clients, a README.

A server's plug-in or a target's emitter writes the artifact and its own configuration, and then has
:class:`Package` write these around it.
"""

from emitters.packaging.facts import Device, Wire
from emitters.packaging.package import Package
from emitters.packaging.readme import Readme

__all__ = ["Device", "Package", "Readme", "Wire"]
