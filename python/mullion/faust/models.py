"""Records: the values of a topic, as classes with typed fields.

>>> class Withdrawal(Record):
...     account: str
...     amount: float
...     country: str = "AT"
>>> Withdrawal.loads(b'{"account": "a", "amount": 12.5}')
<Withdrawal: account='a', amount=12.5, country='AT'>
>>> Withdrawal.country
<FieldDescriptor: Withdrawal.country (str)>
>>> Withdrawal("a", 1.0).derive(amount=2.0).dumps()
b'{"account":"a","amount":2.0,"country":"AT"}'
"""

from __future__ import annotations

import copy
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, final

from mullion._util.codec.json import dumps, plain
from mullion.errors import InvalidArgumentError
from mullion.faust._values.fields import Reader, Reading, ValidationError, reader_of

__all__ = ["FieldDescriptor", "Record", "ValidationError"]

METADATA = "__faust"
"""The field with the name of a record's model."""
_OWN = ("__init__", "__eq__", "__hash__", "__repr__")


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"

    def __reduce__(self) -> str:
        # Pickled by name: models may be pickled by value, and there must be only one instance.
        return "_REQUIRED"


_REQUIRED: Any = _Required()


_Model: TypeAlias = "type[Record]"


@final
class FieldDescriptor:
    """A field as a class attribute: the argument of ``group_by(Withdrawal.country)``, with the field's properties."""

    def __init__(self, model: _Model, field: str, default: Any, parent: FieldDescriptor | None = None) -> None:
        self.model = model
        self.field = field
        self.parent = parent
        self._default = default

    @property
    def type(self) -> Any:
        """The declared type."""
        return self.model._types()[self.field]

    @property
    def required(self) -> bool:
        """True if a value must be given."""
        return self._default is _REQUIRED

    @property
    def default(self) -> Any:
        """The default value; ``None`` for a required field."""
        return None if self.required else self._default

    @property
    def ident(self) -> str:
        """The field with its model, ``Withdrawal.country``; for a nested record ``Login.data.time``."""
        return f"{self.model.__name__ if self.parent is None else self.parent.ident}.{self.field}"

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the fields that lead to it: several for a nested record."""
        return (self.field,) if self.parent is None else (*self.parent.path, self.field)

    def getattr(self, record: Record) -> Any:
        """Returns the field's value in a record."""
        within = record if self.parent is None else self.parent.getattr(record)
        return getattr(within, self.field)

    def __getattr__(self, name: str) -> FieldDescriptor:
        # A field of a nested record. The names of this class take precedence.
        if not name.startswith("_") and "model" in self.__dict__:
            for kind in (self.type, *typing.get_args(self.type)):
                fields = getattr(kind, "_fields", {}) if isinstance(kind, type) and issubclass(kind, Record) else {}
                if name in fields:
                    return FieldDescriptor(kind, name, fields[name]._default, self)
        raise AttributeError(f"{self.ident if 'model' in self.__dict__ else 'a field'} has no field {name!r}")

    def __get__(self, record: Record | None, owner: _Model) -> Any:
        # A value in the record's own dict takes precedence: with a record, the field was deleted.
        if record is None:
            return self
        raise AttributeError(f"{owner.__name__} has lost its field {self.field!r}: it was deleted.")

    def __repr__(self) -> str:
        kind = self.type
        return f"<FieldDescriptor: {self.ident} ({kind.__name__ if isinstance(kind, type) else kind})>"


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of a ``class`` statement; a model inherits all except ``abstract``."""

    reading: Reading
    include_metadata: bool = False
    namespace: str | None = None
    serializer: str | None = None


class Record:
    """The base of records. Fields are annotations of the class; a value after one is its default.

    A field that may be ``None`` is optional. Options are arguments of the ``class`` statement, as in ``class
    Order(Record, coerce=True)``, and are inherited:

    - ``validation=True`` rejects values of another type than the field's, also when a record is created in Python.
    - ``coerce=True`` converts a value to the field's type if possible; ``coercions={type: function}`` converts to your
      own types.
    - ``isodates=False`` leaves dates unchanged; ``date_parser=function`` parses them.
    - ``include_metadata=True`` also writes the model's ``namespace``, as Faust does. In a topic without a type, a
      message is a record of the model that it names, if that exists.

    Raises :class:`ValidationError`, with the field and the reason, for invalid data. Raises ``TypeError`` when a record
    is created in Python without a required field, or with an unknown one.
    """

    _fields: ClassVar[Mapping[str, FieldDescriptor]] = types.MappingProxyType({})
    _positional: ClassVar[tuple[str, ...]] = ()
    """The fields in the order of positional arguments, as in Faust: fields without a default come first."""
    _known_types: ClassVar[Mapping[str, Any]]
    _known_readers: ClassVar[Mapping[str, Reader]]
    _options: ClassVar[_Options] = _Options(Reading())

    def __init_subclass__(
        cls,
        *,
        serializer: str | None = None,
        namespace: str | None = None,
        include_metadata: bool | None = None,
        isodates: bool | None = None,
        coerce: bool | None = None,
        coercions: Mapping[Any, Callable[[Any], Any]] | None = None,
        validation: bool | None = None,
        date_parser: Callable[[Any], datetime] | None = None,
        decimals: bool | None = None,
        abstract: bool = False,
        allow_blessed_key: bool | None = None,
        polymorphic_fields: bool | None = None,
        lazy_creation: bool = False,
        **unknown: Any,
    ) -> None:
        super().__init_subclass__()
        if unknown:
            raise InvalidArgumentError(
                f"{cls.__name__} has the option {next(iter(unknown))!r}, which records have not. They have: "
                "serializer, namespace, include_metadata, isodates, coerce, coercions, validation, date_parser, "
                "decimals, abstract."
            )
        if serializer not in (None, "json", "raw"):
            raise InvalidArgumentError(
                f"serializer={serializer!r} of {cls.__name__} is not supported: write 'json', or read the topic with "
                "value_serializer='raw' and decode the bytes in the agent."
            )
        above = cls._options.reading
        cls._options = _Options(
            Reading(
                above.validation if validation is None else validation,
                above.coerce if coerce is None else coerce,
                above.isodates if isodates is None else isodates,
                above.date_parser if date_parser is None else date_parser,
                above.coercions if coercions is None else {**above.coercions, **coercions},
            ),
            cls._options.include_metadata if include_metadata is None else include_metadata,
            namespace or (None if abstract else f"{cls.__module__}.{cls.__qualname__}"),
            serializer or cls._options.serializer,
        )
        cls._fields = types.MappingProxyType(_fields_of(cls))
        cls._positional = tuple(sorted(cls._fields, key=lambda name: not cls._fields[name].required))
        for name, field in cls._fields.items():
            setattr(cls, name, field)
        for name in _OWN:
            # So that @dataclass, which is often applied to records, does not replace them.
            if name not in cls.__dict__:
                setattr(cls, name, getattr(cls, name))
        if cls._options.namespace is not None:
            _models[cls._options.namespace] = cls

    __class_getitem__: ClassVar[Any] = classmethod(types.GenericAlias)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields, name = self._fields, type(self).__name__
        if len(args) > len(fields):
            raise TypeError(f"{name}() takes {len(fields)} fields, and got {len(args)}.")
        values = dict(zip(self._positional, args, strict=False))
        for field, value in kwargs.items():
            if field not in fields:
                raise TypeError(f"{name}() has no field {field!r}. Its fields are: {', '.join(fields) or 'none'}.")
            if field in values:
                raise TypeError(f"{name}() got the field {field!r} twice.")
            values[field] = value
        missing = [field for field, one in fields.items() if one.required and field not in values]
        if missing:
            raise TypeError(f"{name}() lacks the field{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}.")
        reading = self._options.reading
        if reading.coerce or reading.validation:
            values = {field: self._readers()[field](value, f"{name}.{field}") for field, value in values.items()}
        self._set(values)

    def _set(self, values: Mapping[str, Any]) -> None:
        attributes = self.__dict__
        for name, field in self._fields.items():
            attributes[name] = values[name] if name in values else _copy_default(field._default)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Runs after the fields are set; for models to override."""

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Creates a record from parsed JSON, with each field converted to its type. Ignores unknown fields.

        Raises :class:`ValidationError`.
        """
        return cls._read(data, cls.__name__)

    @classmethod
    def loads(cls, text: bytes | str) -> Self:
        """Parses a record from JSON in UTF-8. Raises :class:`ValidationError`."""
        try:
            data = json.loads(text)
        except (ValueError, UnicodeDecodeError) as error:
            raise ValidationError(cls.__name__, f"it is not JSON: {error}.") from error
        return cls.from_data(data)

    @classmethod
    def _read(cls, data: Any, path: str) -> Self:
        if isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            raise ValidationError(path, f"{data!r} ({type(data).__name__}) is not an object with fields.")
        readers, values = cls._readers(), {}
        for name, field in cls._fields.items():
            if name in data:
                value = data[name]
                # As in Faust, null means a missing value if the field has a default.
                if value is None and not field.required:
                    continue
                values[name] = readers[name](value, f"{path}.{name}")
            elif field.required:
                raise ValidationError(f"{path}.{name}", "it is missing, and has no default.")
        record = cls.__new__(cls)
        record._set(values)
        return record

    @classmethod
    def _types(cls) -> Mapping[str, Any]:
        # Resolved on first use: a field's class may be defined later in the module.
        if "_known_types" not in cls.__dict__:
            cls._known_types = _types_of(cls)
        return cls._known_types

    @classmethod
    def _readers(cls) -> Mapping[str, Reader]:
        if "_known_readers" not in cls.__dict__:
            how = cls._options.reading
            cls._known_readers = {name: reader_of(kind, how) for name, kind in cls._types().items()}
        return cls._known_readers

    def asdict(self) -> dict[str, Any]:
        """Returns the fields by name; nested records stay records."""
        return {name: getattr(self, name) for name in self._fields}

    def to_fields(self) -> dict[str, Any]:
        """Returns the fields by name, as tables store them."""
        return self.asdict()

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> Self:
        """Creates a record from stored fields; ignores those that the model no longer has."""
        record = cls.__new__(cls)
        record._set({name: value for name, value in fields.items() if name in cls._fields})
        return record

    def to_representation(self) -> dict[str, Any]:
        """Returns the fields by name, as plain JSON values."""
        name = type(self).__name__
        representation = {field: plain(getattr(self, field), f"{name}.{field}") for field in self._fields}
        if self._options.include_metadata:
            representation[METADATA] = {"ns": self._options.namespace}
        return representation

    def dumps(self) -> bytes:
        """Returns the record as JSON in UTF-8. Raises :class:`InvalidArgumentError` if a value has no JSON form."""
        return dumps(self)

    def derive(self, *others: Record, **fields: Any) -> Self:
        """Returns a copy whose fields are replaced by those of ``others``, then by ``fields``."""
        values = self.asdict()
        for other in others:
            values.update({name: value for name, value in other.asdict().items() if name in values})
        return type(self)(**{**values, **fields})

    def validate(self) -> list[ValidationError]:
        """Returns the errors of the current field values by their types; empty if all are valid."""
        how, wrong = self._options.reading, []
        strict = Reading(True, False, True, how.date_parser, how.coercions)
        for name, kind in self._types().items():
            try:
                reader_of(kind, strict)(getattr(self, name), f"{type(self).__name__}.{name}")
            except ValidationError as refused:
                wrong.append(refused)
        return wrong

    def is_valid(self) -> bool:
        """True if every field holds a value of its type."""
        return not self.validate()

    def validate_or_raise(self) -> None:
        """Raises the first error of :meth:`validate`."""
        for wrong in self.validate():
            raise wrong

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Record) and self.asdict() == other.asdict()

    def __hash__(self) -> int:
        return hash((type(self), *self.asdict().values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.asdict().items())
        return f"<{type(self).__name__}: {values}>" if values else f"<{type(self).__name__}>"


_models: dict[str, type[Record]] = {}
"""All models by namespace."""


def marked(record: Record) -> dict[str, Any]:
    """Returns a record as plain JSON values, with its model's name."""
    return {**record.to_representation(), METADATA: {"ns": record._options.namespace}}


def unmarked(data: dict[str, Any]) -> Any:
    """Returns the record of a message that names its model, if the model is known here; otherwise the data."""
    metadata = data[METADATA]
    model = _models.get(str(metadata.get("ns"))) if isinstance(metadata, dict) else None
    return data if model is None else model.from_data(data)


def models_in(names: Mapping[str, Any]) -> dict[str, type[Record]]:
    """Returns the models among the values of names, by namespace."""
    models = [one for one in names.values() if isinstance(one, type) and issubclass(one, Record)]
    return {str(one._options.namespace): one for one in models if one._options.namespace is not None}


def know(models: Mapping[str, type[Record]]) -> None:
    """Registers models by namespace, in a process that has not defined them."""
    _models.update(models)


def _fields_of(cls: type[Record]) -> dict[str, FieldDescriptor]:
    """The fields of the base models, then those that the class declares, in order."""
    fields: dict[str, FieldDescriptor] = {}
    for base in reversed(cls.__mro__[1:]):
        for name, field in base.__dict__.get("_fields", {}).items():
            fields[name] = FieldDescriptor(cls, name, cls.__dict__.get(name, field._default))
    for name, annotation in inspect.get_annotations(cls).items():
        if name.startswith("_") or _is_class_variable(annotation):
            continue
        default = cls.__dict__.get(name, None if _may_be_none(annotation) else _REQUIRED)
        fields[name] = FieldDescriptor(cls, name, default)
    return fields


def _is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.startswith(("ClassVar", "typing.ClassVar"))
    return typing.get_origin(annotation) is ClassVar or annotation is ClassVar


def _may_be_none(annotation: Any) -> bool:
    """True if a field is optional. It runs while the class is created, when names may be unresolved."""
    if isinstance(annotation, str):
        text = annotation.replace(" ", "")
        return text.startswith(("Optional[", "typing.Optional[")) or text.endswith("|None") or text.startswith("None|")
    origin = typing.get_origin(annotation)
    return origin in (typing.Union, types.UnionType) and type(None) in typing.get_args(annotation)


def _types_of(cls: type[Record]) -> Mapping[str, Any]:
    try:
        types = typing.get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
    except NameError as error:
        raise InvalidArgumentError(
            f"{cls.__name__} has a field of a type that is not known: {error}. Define it in the same module, outside "
            "of functions, or leave out 'from __future__ import annotations'."
        ) from error
    return {name: types[name] for name in cls._fields}


def _copy_default(default: Any) -> Any:
    """Copies a mutable default, so that records do not share it."""
    return copy.deepcopy(default) if isinstance(default, (list, dict, set, Record)) else default


# Faust's module is a package, whose modules :mod:`mullion.faust._public_names.modules` finds.
__path__: list[str] = []


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Names of Faust's module that are elsewhere here. Type checkers see the real names only.
        from mullion.faust._public_names.modules import named

        return named("models", name)
