"""The bill of materials, in CycloneDX 1.6."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable

from . import tools
from .inventory import Part
from .places import ReleaseError

NAMESPACE = uuid.UUID("3f1f4f0c-0b1c-5d0e-9a53-6c5a4e6f7a10")
"""The namespace of identifiers. Identifiers are derived from names, so that they are reproducible."""


def sbom(parts: Iterable[Part], version: str, epoch: int) -> str:
    """Returns the bill as JSON, validated against CycloneDX's schema."""
    tools.load("cyclonedx")
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentScope, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    licences = LicenseFactory()

    def component(part: Part) -> Component:
        # Interpreters outside the release are optional, because they are downloaded when a script first needs them.
        outside = ComponentScope.OPTIONAL if part.kind in ("interpreter", "library") else ComponentScope.EXCLUDED
        made = Component(
            name=part.name,
            version=part.version,
            type=ComponentType.APPLICATION if part.kind in ("interpreter", "tool") else ComponentType.LIBRARY,
            purl=PackageURL.from_string(part.purl),
            bom_ref=part.purl,
            scope=ComponentScope.REQUIRED if part.is_inside else outside,
            description=part.origin,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else [],
            licenses=[] if part.licence == "NOASSERTION" else [licences.make_from_string(part.licence)],
        )
        if part.homepage:
            kind = ExternalReferenceType.VCS if part.kind == "crate" else ExternalReferenceType.WEBSITE
            made.external_references.add(ExternalReference(type=kind, url=XsUri(part.homepage)))
        made.properties.add(Property(name="glovebox:kind", value=part.kind))
        return made

    listed = list(parts)
    components = {part.purl: component(part) for part in listed}
    bom = Bom(
        serial_number=uuid.uuid5(NAMESPACE, "\n".join([version, *(f"{part.purl} {part.sha256}" for part in listed)])),
        components=components.values(),
    )
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    whole = bom.metadata.component = Component(
        name="glovebox", version=version, type=ComponentType.APPLICATION, bom_ref="glovebox",
        licenses=[licences.make_from_string("Apache-2.0")],
    )  # fmt: skip
    for part in listed:
        bom.register_dependency(components[part.purl], [components[each] for each in part.needs])
    direct = [part for part in listed if part.is_ours or part.is_inside and part.kind not in ("crate", "library")]
    bom.register_dependency(whole, [components[part.purl] for part in direct])
    text: str = JsonV1Dot6(bom).output_as_string(indent=1) + "\n"
    if wrong := invalid(text):
        raise ReleaseError(f"the bill of materials is not valid CycloneDX: {wrong}")
    return text


def invalid(text: str) -> str | None:
    """Returns the violations of the schema of CycloneDX 1.6."""
    tools.load("cyclonedx")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return None if wrong is None else str(wrong)
