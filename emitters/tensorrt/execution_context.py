"""One caller of an engine: an execution context, a stream, and memory for inputs and outputs.

Imported only by the process that runs an engine (:mod:`.session_child`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from converter.errors import MachineError, ModelError, UsageError
from emitters.tensorrt.cuda import Event, Graph, Memory, Stream
from emitters.tensorrt.engine import Engine
from emitters.tensorrt.profile_choice import choose_profile

Array = np.ndarray[Any, Any]


class Lane:
    """One caller. Everything in it has to be called by one thread at a time.

    Raises:
        MachineError: The device's memory is spent.
    """

    def __init__(self, engine: Engine) -> None:
        engine.device.use()
        self._engine = engine
        self._stream = Stream()
        self._context = engine.new_context()
        self._start, self._end = Event(), Event()
        self._memory: dict[str, Memory] = {}
        self._host: dict[str, Array] = {}
        self._growing: dict[str, Any] = {}
        self._graph: Graph | None = None
        self._profile = 0
        self.captured = False
        """Whether runs are replayed from a CUDA graph."""

    # -- before a run ----------------------------------------------------------------

    def load(self, feeds: Mapping[str, Array]) -> None:
        """Sets shapes, gives every tensor memory and copies the inputs to the device.

        Raises:
            UsageError: Inputs are missing, of another type, or fit no profile.
            ModelError: The library refuses a shape.
            MachineError: The device's memory is spent.
        """
        arrays = {name: self._checked(name, feeds) for name in self._engine.inputs}
        self._drop_graph()
        self._set_profile(arrays)
        for name, array in arrays.items():
            self._require(self._context.set_input_shape(name, array.shape), f"shape of {name}")
            self._place_input(name, array)
        self._infer_shapes()
        for name in self._engine.outputs:
            self._place_output(name)
        self._stream.wait()  # the arrays may go once they are copied

    def _infer_shapes(self) -> None:
        try:
            missing = self._context.infer_shapes()
        except RuntimeError as error:  # the bindings' own for inputs that don't go together
            raise ModelError(
                f"the engine can't compute with these inputs: {error}",
                code="runtime-failed",
                details=self._engine.log,
            ) from error
        if missing:
            raise ModelError(
                f"the engine can't infer shapes from {', '.join(missing)}", code="runtime-failed"
            )

    def _checked(self, name: str, feeds: Mapping[str, Array]) -> Array:
        if name not in feeds:
            raise UsageError(
                f"running the engine: the input {name} is missing", code="samples-mismatch"
            )
        wanted = dtype_of(self._engine.dtype(name))
        array = np.asarray(feeds[name])
        if array.dtype != wanted:
            raise UsageError(
                f"running the engine: {name} is {array.dtype}, but the engine takes {wanted}",
                code="samples-mismatch",
            )
        return np.ascontiguousarray(array).reshape(array.shape)

    def _set_profile(self, arrays: Mapping[str, Array]) -> None:
        if not any(self._engine.profiles):
            return
        shapes = {name: array.shape for name, array in arrays.items()}
        index = choose_profile(shapes, self._engine.profiles, "running the engine")
        if index != self._profile:
            done = self._context.set_optimization_profile_async(index, self._stream.handle)
            self._require(done, f"profile {index}")
            self._stream.wait()
            self._profile = index

    def _place_input(self, name: str, array: Array) -> None:
        if self._engine.on_host(name):
            self._host[name] = array.copy()  # it has to stay while the context may read it
            self._require(self._context.set_tensor_address(name, _address(self._host[name])), name)
            return
        memory = self._room(name, array.nbytes)
        self._stream.upload(memory.address, _address(array), array.nbytes)
        self._require(self._context.set_tensor_address(name, memory.address), name)

    def _place_output(self, name: str) -> None:
        shape = tuple(self._context.get_tensor_shape(name))
        dtype = dtype_of(self._engine.dtype(name))
        if -1 in shape:  # its size depends on the values of the inputs
            if name not in self._growing:
                self._growing[name] = output_allocator(self._engine.library)
            allocator = self._growing[name]
            allocator.shape = None
            self._require(self._context.set_output_allocator(name, allocator), name)
            return
        if self._engine.on_host(name):
            self._host[name] = np.empty(shape, dtype)
            self._require(self._context.set_tensor_address(name, _address(self._host[name])), name)
            return
        memory = self._room(name, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        self._require(self._context.set_tensor_address(name, memory.address), name)

    def _room(self, name: str, size: int) -> Memory:
        """The tensor's memory, made anew where it is too small."""
        memory = self._memory.get(name)
        if memory is None or memory.size < size:
            if memory:
                memory.close()
            memory = self._memory[name] = Memory(size)
        return memory

    # -- a run -----------------------------------------------------------------------

    def run(self) -> None:
        """Runs what was loaded, and waits for it.

        Raises:
            MachineError: The device or the library failed.
        """
        self._enqueue()
        self._stream.wait()

    def _enqueue(self) -> None:
        if self._graph is not None:
            self._stream.launch(self._graph)
            return
        if not self._context.execute_async_v3(self._stream.handle):
            raise MachineError("the engine failed to run", code="machine", details=self._engine.log)

    def timed(self, runs: int) -> list[int]:
        """Runs what was loaded ``runs`` times, one after the other.

        Returns:
            Nanoseconds of each, by the device's clock, from the moment the device begins to work
            off the run until the last output lies in its memory. Copies from and to the host
            are not in it.
        """
        taken = []
        for _ in range(runs):
            self._stream.record(self._start)
            self._enqueue()
            self._stream.record(self._end)
            self._end.wait()
            taken.append(self._end.nanoseconds_since(self._start))
        return taken

    def capture(self) -> None:
        """Makes later runs of what was loaded one graph, where that can be done: not where the
        library waits for the device, as it does for a loop or a size that depends on values.

        Raises:
            MachineError: As :meth:`run`.
        """
        self.run()  # what the library does once for a shape can't be captured
        if self._engine.captures_itself:
            self.captured = bool(self._context.is_stream_capturable(self._stream.handle))
        elif not self._growing:
            self.captured = self._captured()
        if not self.captured:
            self.run()

    def _captured(self) -> bool:
        graph = Graph()
        try:
            with self._stream.capturing(graph):
                self._enqueue()
        except MachineError:  # TensorRT can't be asked beforehand
            return False
        self._graph = graph
        return True

    # -- after a run -----------------------------------------------------------------

    def outputs(self) -> dict[str, Array]:
        """The outputs of the last run, copied to the host."""
        arrays = {}
        for name in self._engine.outputs:
            shape, address = self._result(name)
            if name in self._host and name not in self._growing:
                arrays[name] = self._host[name].copy()
                continue
            arrays[name] = array = np.empty(shape, dtype_of(self._engine.dtype(name)))
            self._stream.download(_address(array), address, array.nbytes)
        self._stream.wait()
        return arrays

    def _result(self, name: str) -> tuple[tuple[int, ...], int]:
        allocator = self._growing.get(name)
        if allocator is None:
            shape = tuple(self._context.get_tensor_shape(name))
            memory = self._memory.get(name)
            return shape, memory.address if memory else 0
        if allocator.shape is None:
            raise MachineError(f"the engine gave no shape of its output {name}", code="machine")
        return allocator.shape, allocator.memory.address if allocator.memory else 0

    def close(self) -> None:
        self._stream.wait()
        self._drop_graph()
        del self._context
        for memory in self._memory.values():
            memory.close()
        for allocator in self._growing.values():
            allocator.close()
        self._start.close()
        self._end.close()
        self._stream.close()

    def _drop_graph(self) -> None:
        if self._graph is not None:
            self._graph.close()
        self._graph, self.captured = None, False

    def _require(self, done: bool, what: str) -> None:
        if not done:
            raise ModelError(
                f"the engine refuses the {what}", code="runtime-failed", details=self._engine.log
            )


def output_allocator(library: Any) -> Any:
    """An ``IOutputAllocator`` with one growing piece of memory, told the shape after a run."""

    class Growing(library.IOutputAllocator):  # type: ignore[misc] # the base is only known now
        def __init__(self) -> None:
            library.IOutputAllocator.__init__(self)
            self.memory: Memory | None = None
            self.shape: tuple[int, ...] | None = None

        def reallocate_output_async(
            self, tensor_name: str, memory: int, size: int, alignment: int, stream: int
        ) -> int:
            """The address of at least ``size`` bytes; 0 where there are none."""
            if self.memory is None or self.memory.size < size:
                self.close()
                try:
                    self.memory = Memory(size)
                except MachineError:  # may not pass through the library's frames; 0 ends the run
                    return 0
            return self.memory.address

        def reallocate_output(self, tensor_name: str, memory: int, size: int, align: int) -> int:
            """As above: the name that TensorRT before 10 calls."""
            return self.reallocate_output_async(tensor_name, memory, size, align, 0)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            """Told the output's shape."""
            self.shape = tuple(shape)

        def close(self) -> None:
            if self.memory is not None:
                self.memory.close()
                self.memory = None

    return Growing()


def dtype_of(name: str) -> np.dtype[Any]:
    """The array type of a name of :data:`.engine_script.running.DTYPES`."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def _address(array: Array) -> int:
    return int(array.ctypes.data)
