'''Operators by family, each case on every target, against ONNX Runtime.

A file is a family; its cases (:class:`~tests.operators.cases.Case`) are graphs in ONNX's own text
form (https://onnx.ai/onnx/repo-docs/Syntax.html), each with a name, which is the test's id::

    Case("pads fed",
        """g (float[n, 3] x, int64[2] p) => (y) <float[6] w, int64[1] axes = {-1}> {
            a = Pad <mode = "edge"> (x, p, "", axes)
            b = Mul (a, w)
            y = Relu (b)
        }""",
        sizes=[{"n": 1}, {"n": 4}], feeds={"p": [1, 2]}, tflite=Emits("MUL", RELU=0)),

* Between ``=>`` and the nodes stand outputs, whose types onnx infers where none is said, and in
  ``<>`` constants with their values (``axes``), weights without (``w``), and the types of results
  that onnx can't infer.
* ``sizes`` are the free dimensions of each run, ``feeds`` and ``weights`` the values that matter,
  ``ranges`` what random numbers lie between; all other values are random and seeded by name.
  (ONNX's text form has no numbers of float16: such a constant is a weight.)
* ``tflite`` and ``coreml`` say what the target does besides giving the reference's numbers:
  ``Emits`` some operators, ``Only`` these, or it is ``Refused``, ``Fails``, or ``Differs``.

Cases alike are a comprehension over Python's own f-strings, in which ONNX's braces are doubled.
'''
