"""Operators by family, each case on every target, against ONNX Runtime.

A file is a family; its ``CASES`` are names with ONNX text (:class:`~tests.operators.cases.Case`):

* A line is a node, its operands declared where they stand: ``[n,3,9]`` is an input of float,
  ``int64 i[4]~0:9`` one with a name and a range (to below 9), ``![4,3]`` a weight, ``{0,2}`` a
  constant vector, ``$1.5`` or ``int8$3`` a scalar. What no node takes is an output; ``y = ...``
  names a result (``_y``: no output), ``float[a,2] y = ...`` says its type where onnx doesn't know.
* ``(a|b)`` in a line gives a node for each; in the case's name too, a case for each, and
  ``(=c|d)`` is chosen in step with the name's.
* ``sizes="n=1 h=9, n=2 h=7"`` are runs with these free dimensions; ``feeds`` and ``weights`` give
  values that matter, by name; all else is seeded and normal.
* ``tflite=`` and ``coreml=`` say what is emitted: ``CONV_2D`` is there, ``-PAD`` isn't, ``ADD*2``
  are two, ``= MUL ADD`` is all there is but transposes. ``! words & more`` is what the refusals
  say, ``~ words`` the runtime's error; ``# words`` says in what the target differs, and it has to.
"""
