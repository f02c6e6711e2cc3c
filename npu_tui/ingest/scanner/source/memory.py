"""Memory as regions: reads, writes and the few instructions that Python has no words for.

Everything is int64, also what is meant unsigned: Numba would make floats of a mixture. With ``NPU_TUI_CHECKED`` set
when this is imported, every access outside its region ends the process with an illegal instruction.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

CHECKED = bool(os.environ.get("NPU_TUI_CHECKED"))

Region = tuple[int, int]
"""Address and length in bytes."""

_I8, _I16, _I32, _I64, _I128 = (ir.IntType(bits) for bits in (8, 16, 32, 64, 128))
_F64 = ir.DoubleType()


def compiled(function: F) -> F:
    """``function`` for Numba: no exception is ever raised."""
    return njit(error_model="numpy")(function)


def _pointer(builder: Any, region: Any, offset: Any, size: int, kind: Any) -> Any:
    address = builder.add(builder.extract_value(region, 0), offset)
    if CHECKED:
        end = builder.add(offset, ir.Constant(_I64, size))
        length = builder.extract_value(region, 1)
        outside = builder.or_(
            builder.icmp_signed("<", offset, ir.Constant(_I64, 0)), builder.icmp_signed(">", end, length)
        )
        with builder.if_then(outside):
            trap = builder.module.declare_intrinsic("llvm.trap", (), ir.FunctionType(ir.VoidType(), ()))
            builder.call(trap, ())
    return builder.inttoptr(address, kind.as_pointer())


def _reader(kind: Any, size: int, result: Any, widen: Callable[[Any, Any], Any]) -> Any:
    def read(context: Any, region: Any, offset: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            loaded = builder.load(_pointer(builder, args[0], args[1], size, kind))
            loaded.align = 1
            return widen(builder, loaded)

        return result(region, types.int64), generate

    return intrinsic(read)


def _writer(kind: Any, size: int, value_type: Any, narrow: Callable[[Any, Any], Any]) -> Any:
    def write(context: Any, region: Any, offset: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            stored = builder.store(narrow(builder, args[2]), _pointer(builder, args[0], args[1], size, kind))
            stored.align = 1
            return context.get_dummy_value()

        return types.void(region, types.int64, value_type), generate

    return intrinsic(write)


read8 = _reader(_I8, 1, types.int64, lambda b, v: b.zext(v, _I64))
read32 = _reader(_I32, 4, types.int64, lambda b, v: b.sext(v, _I64))
read64 = _reader(_I64, 8, types.int64, lambda b, v: v)
write8 = _writer(_I8, 1, types.int64, lambda b, v: b.trunc(v, _I8))
write32 = _writer(_I32, 4, types.int64, lambda b, v: b.trunc(v, _I32))
write64 = _writer(_I64, 8, types.int64, lambda b, v: v)
write_float = _writer(_F64, 8, types.float64, lambda b, v: v)


@intrinsic
def fetch(context: Any, region: Any, offset: Any) -> Any:
    """Ask for the byte at ``offset``, which is soon read; nothing is read, and nothing happens where none is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = builder.add(builder.extract_value(args[0], 0), args[1])
        kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [_I8.as_pointer()], kind)
        read, keep, data = (ir.Constant(_I32, number) for number in (0, 3, 1))
        builder.call(prefetch, [builder.inttoptr(address, _I8.as_pointer()), read, keep, data])
        return context.get_dummy_value()

    return types.void(region, types.int64), generate


@intrinsic
def special_bytes(context: Any, region: Any, offset: Any) -> Any:
    """Of 32 bytes, a bit for every quote, backslash, control character and byte that is no ASCII."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(_I8, 32)

        def all_of(value: int) -> Any:
            return ir.Constant(vector, [value] * 32)

        loaded = builder.load(_pointer(builder, args[0], args[1], 32, vector))
        loaded.align = 1
        quote = builder.icmp_unsigned("==", loaded, all_of(0x22))
        backslash = builder.icmp_unsigned("==", loaded, all_of(0x5C))
        # As signed bytes both control characters and what is no ASCII lie below the blank.
        strange = builder.icmp_signed("<", loaded, all_of(0x20))
        found = builder.or_(builder.or_(quote, backslash), strange)
        return builder.zext(builder.bitcast(found, _I32), _I64)

    return types.int64(region, types.int64), generate


def _matching(either_case: bool) -> Any:
    """Of 32 bytes, a bit for every one that equals a constant; with ``either_case`` whatever its bit of 32 is."""

    def matching(context: Any, region: Any, offset: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(_I8, 32)
            loaded = builder.load(_pointer(builder, args[0], args[1], 32, vector))
            loaded.align = 1
            if either_case:
                loaded = builder.or_(loaded, ir.Constant(vector, [0x20] * 32))
            one = builder.insert_element(
                ir.Constant(vector, ir.Undefined), builder.trunc(args[2], _I8), ir.Constant(_I32, 0)
            )
            every = builder.shuffle_vector(
                one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(_I32, 32), [0] * 32)
            )
            return builder.zext(builder.bitcast(builder.icmp_unsigned("==", loaded, every), _I32), _I64)

        return types.int64(region, types.int64, types.int64), generate

    return intrinsic(matching)


equal_bytes = _matching(either_case=False)
bracket_bytes = _matching(either_case=True)
"""Square brackets are braces with that bit off."""


@intrinsic
def trailing_zeros(context: Any, value: Any) -> Any:
    """How many low bits of ``value`` are zero; it must not be zero itself."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic
def leading_zeros(context: Any, value: Any) -> Any:
    """How many high bits of ``value`` are zero; it must not be zero itself."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic
def shifted_right(context: Any, value: Any, bits: Any) -> Any:
    """``value`` as unsigned, shifted right."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.lshr(args[0], args[1])

    return types.int64(types.int64, types.int64), generate


@intrinsic
def swapped(context: Any, value: Any) -> Any:
    """``value`` with its eight bytes in the opposite order."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bswap(args[0])

    return types.int64(types.int64), generate


@intrinsic
def high_product(context: Any, first: Any, second: Any) -> Any:
    """The high 64 bits of the product of two unsigned numbers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        product = builder.mul(builder.zext(args[0], _I128), builder.zext(args[1], _I128))
        return builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), _I64)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def below(context: Any, first: Any, second: Any) -> Any:
    """Whether ``first`` is less than ``second``, both unsigned."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.icmp_unsigned("<", args[0], args[1])

    return types.boolean(types.int64, types.int64), generate


@intrinsic
def float_of_bits(context: Any, bits: Any) -> Any:
    """The float that ``bits`` are."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _F64)

    return types.float64(types.int64), generate


@intrinsic
def bits_of_float(context: Any, value: Any) -> Any:
    """The bits of a float."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _I64)

    return types.int64(types.float64), generate


@intrinsic
def nearest_even(context: Any, value: Any) -> Any:
    """The whole number nearest to ``value``, the even one of two, as a float."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_F64, (_F64,))
        return builder.call(builder.module.declare_intrinsic("llvm.rint", (_F64,), kind), args)

    return types.float64(types.float64), generate


@compiled
def region(plan: Region, number: int) -> Region:
    """Region ``number`` of those that a plan begins with."""
    return read64(plan, 16 * number), read64(plan, 16 * number + 8)
