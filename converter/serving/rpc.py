"""The Open Inference Protocol (V2) over gRPC.

A call takes and gives bytes: a load generator makes a request once, and reads of an answer no more
than it has to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from tritonclient.grpc import service_pb2 as schema

from converter.errors import UsageError
from converter.serving.address import Address
from converter.serving.http import TIMEOUT_S
from converter.serving.tensors import DATATYPES, DTYPES, Array, from_bytes, from_values, name_of
from converter.serving.tensors import to_bytes as raw
from converter.serving.wire import ErrorAnswer, Specs, Statistics, Wire, spec, sum_statistics

_SERVICE = "/inference.GRPCInferenceService/"
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a connection each, as HTTP's
)


class GrpcAsker:
    """A connection over gRPC."""

    def __init__(self, address: Address, call: str = "ModelInfer") -> None:
        self._channel = _channel(address)
        self._call = self._channel.unary_unary(_SERVICE + call)

    def ask(self, request: bytes) -> bytes:
        """The answer's message."""
        try:
            return bytes(self._call(request, timeout=TIMEOUT_S))
        except grpc.RpcError as error:
            code = error.code()
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise ConnectionError(f"{code.name}: {error.details()}") from error
            raise ErrorAnswer(code.name, error.details() or "") from error

    def close(self) -> None:
        self._channel.close()


def _channel(address: Address) -> Any:
    if not address.secure:
        return grpc.insecure_channel(address.place, _OPTIONS)
    roots = os.environ.get("SSL_CERT_FILE")  # as Python's own TLS has it
    credentials = grpc.ssl_channel_credentials(Path(roots).read_bytes() if roots else None)
    return grpc.secure_channel(address.place, credentials, _OPTIONS)


class V2Rpc(Wire):
    """A model behind gRPC.

    Raises:
        UsageError: The address names no model.
    """

    def __init__(self, address: Address) -> None:
        if not address.model:
            raise UsageError(
                f"the address doesn't name a model of {address.place}",
                code="option-missing",
                hint=f"--server grpc://{address.place}/NAME",
            )
        self.address = address

    def connect(self) -> GrpcAsker:
        return GrpcAsker(self.address)

    def encode(self, feeds: Mapping[str, Array]) -> bytes:
        """A ModelInferRequest with raw contents."""
        request = schema.ModelInferRequest(model_name=self.address.model)
        for name, array in feeds.items():
            datatype = DATATYPES[name_of(array)]
            request.inputs.add(name=name, datatype=datatype, shape=list(array.shape))
            request.raw_input_contents.append(raw(array))
        return bytes(request.SerializeToString())

    def decode(self, answer: bytes) -> dict[str, Array]:
        """The outputs, from raw contents or typed ones."""
        response = schema.ModelInferResponse.FromString(answer)
        outputs: dict[str, Array] = {}
        for index, item in enumerate(response.outputs):
            dtype, shape = DTYPES[item.datatype], list(item.shape)
            if response.raw_output_contents:
                data = response.raw_output_contents[index]
                outputs[item.name] = from_bytes(data, dtype, shape)
            else:
                fields = item.contents.ListFields()
                values = list(fields[0][1]) if fields else []
                texts = [v.decode() for v in values] if dtype == "string" else values
                outputs[item.name] = from_values(texts, dtype, shape)
        return outputs

    def specs(self) -> Specs:
        """What ModelMetadata says."""
        request = schema.ModelMetadataRequest(name=self.address.model)
        said = schema.ModelMetadataResponse.FromString(self._once("ModelMetadata", request))
        inputs, outputs = (
            tuple(spec(item.name, DTYPES[item.datatype], list(item.shape)) for item in tensors)
            for tensors in (said.inputs, said.outputs)
        )
        return inputs, outputs

    def statistics(self) -> Statistics | None:
        """What ModelStatistics says, where the server has it."""
        request = schema.ModelStatisticsRequest(name=self.address.model)
        try:
            answer = self._once("ModelStatistics", request)
        except ErrorAnswer:
            return None
        said = MessageToDict(
            schema.ModelStatisticsResponse.FromString(answer), preserving_proto_field_name=True
        )
        return sum_statistics(said.get("model_stats", ()))

    def _once(self, call: str, request: Any) -> bytes:
        asker = GrpcAsker(self.address, call)
        try:
            return asker.ask(request.SerializeToString())
        finally:
            asker.close()
