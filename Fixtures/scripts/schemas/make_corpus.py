"""Writes Fixtures/schemas/corpus.jsonl: schemas in the shapes that SDKs, APIs and configuration files have.

Domains (tables of typed fields, written by hand) are rendered in the dialects of several generators: the strict form
of the OpenAI SDKs, pydantic, zod, OpenAPI components, and hand-written draft 7. Then come schemas by hand.
"""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parents[2] / "schemas" / "corpus.jsonl"

# name: [(field, type, extras)]; "?" after a field makes it optional, "=N" a nested domain, "[]" a list of it.
S, I, N, B = "string", "integer", "number", "boolean"
DOMAINS = {
    "Person": [("name", S, {"minLength": 1, "maxLength": 80}), ("age", I, {"minimum": 0, "maximum": 150}), ("email", S, {"format": "email"}), ("nickname?", S, {}), ("languages", "[]" + S, {})],
    "Address": [("street", S, {}), ("city", S, {}), ("zip", S, {"pattern": "^[0-9]{5}(-[0-9]{4})?$"}), ("country", S, {"enum": ["DE", "FR", "US", "JP"]}), ("lines?", "[]" + S, {"maxItems": 3})],
    "Customer": [("id", S, {"format": "uuid"}), ("person", "=Person", {}), ("address?", "=Address", {}), ("since", S, {"format": "date"}), ("credit", N, {"minimum": 0, "multipleOf": 0.01})],
    "OrderLine": [("sku", S, {"pattern": "^[A-Z]{2,4}-[0-9]{3,6}$"}), ("quantity", I, {"minimum": 1, "maximum": 999}), ("price", N, {"exclusiveMinimum": 0}), ("gift?", B, {})],
    "Order": [("number", I, {"minimum": 1}), ("customer", "=Customer", {}), ("lines", "[]=OrderLine", {"minItems": 1}), ("status", S, {"enum": ["open", "paid", "shipped", "cancelled"]}), ("placed_at", S, {"format": "date-time"})],
    "Invoice": [("id", S, {}), ("issued", S, {"format": "date"}), ("currency", S, {"enum": ["EUR", "USD", "JPY"]}), ("total", N, {"minimum": 0}), ("lines", "[]=OrderLine", {}), ("notes?", S, {"maxLength": 200})],
    "CalendarEvent": [("name", S, {}), ("date", S, {"format": "date"}), ("participants", "[]" + S, {}), ("location?", S, {}), ("all_day", B, {})],
    "MathStep": [("explanation", S, {}), ("output", S, {})],
    "MathReasoning": [("steps", "[]=MathStep", {}), ("final_answer", S, {})],
    "ResearchPaper": [("title", S, {}), ("authors", "[]" + S, {}), ("abstract", S, {}), ("keywords", "[]" + S, {}), ("year?", I, {"minimum": 1900, "maximum": 2100})],
    "Moderation": [("is_violating", B, {}), ("category", S, {"enum": ["violence", "sexual", "self_harm"]}), ("explanation", S, {})],
    "SearchQuery": [("query", S, {}), ("limit", I, {"minimum": 1, "maximum": 100}), ("filters?", "[]" + S, {}), ("safe", B, {})],
    "WeatherCall": [("location", S, {}), ("unit", S, {"enum": ["celsius", "fahrenheit"]}), ("days?", I, {"minimum": 1, "maximum": 14})],
    "FlightSearch": [("origin", S, {"pattern": "^[A-Z]{3}$"}), ("destination", S, {"pattern": "^[A-Z]{3}$"}), ("depart", S, {"format": "date"}), ("return?", S, {"format": "date"}), ("passengers", I, {"minimum": 1, "maximum": 9}), ("cabin", S, {"enum": ["economy", "business", "first"]})],
    "SQLQuery": [("table_name", S, {"enum": ["orders", "customers", "products"]}), ("columns", "[]" + S, {"minItems": 1}), ("limit?", I, {"minimum": 0})],
    "Sentiment": [("label", S, {"enum": ["positive", "neutral", "negative"]}), ("score", N, {"minimum": 0, "maximum": 1}), ("reason?", S, {})],
    "Entity": [("text", S, {}), ("kind", S, {"enum": ["person", "place", "organisation", "date"]}), ("start", I, {"minimum": 0}), ("end", I, {"minimum": 0})],
    "Extraction": [("entities", "[]=Entity", {}), ("language", S, {"pattern": "^[a-z]{2}$"}), ("confidence", N, {"minimum": 0, "maximum": 1})],
    "Recipe": [("title", S, {}), ("servings", I, {"minimum": 1, "maximum": 20}), ("ingredients", "[]=Ingredient", {"minItems": 1}), ("steps", "[]" + S, {"minItems": 1}), ("vegetarian", B, {})],
    "Ingredient": [("name", S, {}), ("amount", N, {"exclusiveMinimum": 0}), ("unit?", S, {"enum": ["g", "ml", "piece", "tbsp"]})],
    "Commit": [("sha", S, {"pattern": "^[0-9a-f]{40}$"}), ("message", S, {}), ("author", "=Person", {}), ("parents", "[]" + S, {}), ("verified", B, {})],
    "Repository": [("id", I, {}), ("full_name", S, {"pattern": "^[\\w.-]+/[\\w.-]+$"}), ("private", B, {}), ("html_url", S, {"format": "uri"}), ("topics", "[]" + S, {"uniqueItems": True}), ("license?", S, {})],
    "Issue": [("number", I, {"minimum": 1}), ("title", S, {"minLength": 1, "maxLength": 256}), ("body?", S, {}), ("state", S, {"enum": ["open", "closed"]}), ("labels", "[]" + S, {}), ("assignee?", "=Person", {})],
    "PullRequest": [("issue", "=Issue", {}), ("base", S, {}), ("head", S, {}), ("commits", "[]=Commit", {}), ("mergeable?", B, {})],
    "WebhookEvent": [("id", S, {"format": "uuid"}), ("type", S, {"enum": ["push", "fork", "star"]}), ("repository", "=Repository", {}), ("sent_at", S, {"format": "date-time"})],
    "Song": [("title", S, {}), ("artist", S, {}), ("seconds", I, {"minimum": 1, "maximum": 7200}), ("genres", "[]" + S, {"maxItems": 5, "uniqueItems": True})],
    "Playlist": [("name", S, {"maxLength": 100}), ("songs", "[]=Song", {}), ("public", B, {}), ("cover?", S, {"format": "uri"})],
    "Product": [("productId", I, {"minimum": 1}), ("productName", S, {}), ("price", N, {"exclusiveMinimum": 0}), ("tags?", "[]" + S, {"minItems": 1, "uniqueItems": True}), ("dimensions?", "=Dimensions", {})],
    "Dimensions": [("length", N, {"minimum": 0}), ("width", N, {"minimum": 0}), ("height", N, {"minimum": 0})],
    "Measurement": [("sensor", S, {"pattern": "^s[0-9]+$"}), ("value", N, {"minimum": -273.15, "maximum": 1500.5}), ("at", S, {"format": "date-time"}), ("quality", I, {"enum": [0, 1, 2, 3]})],
    "Device": [("mac", S, {"pattern": "^([0-9A-F]{2}:){5}[0-9A-F]{2}$"}), ("ipv4", S, {"format": "ipv4"}), ("ipv6?", S, {"format": "ipv6"}), ("hostname", S, {"format": "hostname"}), ("readings", "[]=Measurement", {})],
    "Patient": [("id", S, {}), ("person", "=Person", {}), ("blood", S, {"enum": ["A", "B", "AB", "0"]}), ("allergies", "[]" + S, {}), ("weight_kg?", N, {"minimum": 0.5, "maximum": 500})],
    "Appointment": [("patient", "=Patient", {}), ("start", S, {"format": "date-time"}), ("minutes", I, {"multipleOf": 5, "minimum": 5, "maximum": 240}), ("room?", S, {"maxLength": 10})],
    "Vehicle": [("vin", S, {"pattern": "^[A-HJ-NPR-Z0-9]{17}$"}), ("make", S, {}), ("year", I, {"minimum": 1886, "maximum": 2100}), ("electric", B, {}), ("owner?", "=Person", {})],
    "Booking": [("hotel", S, {}), ("nights", I, {"minimum": 1, "maximum": 60}), ("guests", "[]=Person", {"minItems": 1, "maxItems": 6}), ("breakfast", B, {}), ("total", N, {"minimum": 0})],
    "Transaction": [("id", S, {"format": "uuid"}), ("amount", N, {}), ("currency", S, {"minLength": 3, "maxLength": 3}), ("iban?", S, {"pattern": "^[A-Z]{2}[0-9]{2}[A-Z0-9]{10,30}$"}), ("booked", B, {})],
    "Account": [("iban", S, {}), ("owner", "=Customer", {}), ("transactions", "[]=Transaction", {}), ("balance", N, {})],
    "Lesson": [("topic", S, {}), ("minutes", I, {"minimum": 5}), ("questions", "[]=Question", {})],
    "Question": [("text", S, {}), ("options", "[]" + S, {"minItems": 2, "maxItems": 5}), ("correct", I, {"minimum": 0, "maximum": 4})],
    "Quiz": [("title", S, {}), ("lessons", "[]=Lesson", {}), ("pass_mark", N, {"minimum": 0, "maximum": 100})],
    "Ticket": [("subject", S, {}), ("priority", I, {"enum": [1, 2, 3, 4]}), ("requester", "=Person", {}), ("tags", "[]" + S, {}), ("due?", S, {"format": "date"})],
    "LogLine": [("time", S, {"format": "date-time"}), ("level", S, {"enum": ["debug", "info", "warn", "error"]}), ("message", S, {}), ("thread?", S, {}), ("duration", S, {"format": "duration"})],
    "Translation": [("source", S, {}), ("target", S, {}), ("text", S, {}), ("alternatives", "[]" + S, {"maxItems": 4})],
    "Chapter": [("heading", S, {}), ("summary", S, {"maxLength": 500}), ("characters", "[]" + S, {})],
    "Book": [("isbn", S, {"pattern": "^(97[89])?[0-9]{9}[0-9X]$"}), ("title", S, {}), ("chapters", "[]=Chapter", {}), ("rating?", N, {"minimum": 0, "maximum": 5, "multipleOf": 0.5})],
    "Job": [("title", S, {}), ("company", S, {}), ("remote", B, {}), ("salary?", "=SalaryRange", {}), ("skills", "[]" + S, {"minItems": 1})],
    "SalaryRange": [("low", I, {"minimum": 0}), ("high", I, {"minimum": 0}), ("period", S, {"enum": ["hour", "month", "year"]})],
}


def split(field):
    return field.rstrip("?"), field.endswith("?")


def closure(name, seen=None):
    seen = [] if seen is None else seen
    if name not in seen:
        seen.append(name)
        for _, kind, _ in DOMAINS[name]:
            if "=" in kind:
                closure(kind.split("=")[1], seen)
    return seen


def value(kind, extras, ref, title=None):
    extras = dict(extras)
    if kind.startswith("[]"):
        inner = kind[2:]
        items = ref(inner[1:]) if inner.startswith("=") else {"type": inner}
        return {"type": "array", "items": items, **extras}
    if kind.startswith("="):
        return ref(kind[1:])
    return {"type": kind, **extras}


def strict(name):
    """The OpenAI SDKs: everything required, optional fields nullable, no further members, definitions shared."""

    def one(name):
        properties = {}
        for field, kind, extras in DOMAINS[name]:
            field, optional = split(field)
            schema = value(kind, extras, lambda n: {"$ref": f"#/$defs/{n}"})
            if optional:
                schema = {"anyOf": [schema, {"type": "null"}]}
            properties[field] = schema
        return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}

    names = closure(name)
    return {**one(name), **({"$defs": {n: one(n) for n in names[1:]}} if names[1:] else {})}


def pydantic(name):
    def one(name):
        properties, required = {}, []
        for field, kind, extras in DOMAINS[name]:
            field, optional = split(field)
            schema = value(kind, extras, lambda n: {"$ref": f"#/$defs/{n}"})
            title = field.replace("_", " ").title()
            if optional:
                schema = {"anyOf": [schema, {"type": "null"}], "default": None, "title": title}
            else:
                required.append(field)
                schema = schema if "$ref" in schema else {**schema, "title": title}
            properties[field] = schema
        return {"properties": properties, "required": required, "title": name, "type": "object"}

    names = closure(name)
    return {**({"$defs": {n: one(n) for n in names[1:]}} if names[1:] else {}), **one(name)}


def zod(name):
    """zod-to-json-schema: inlined, draft 7."""

    def one(name):
        properties, required = {}, []
        for field, kind, extras in DOMAINS[name]:
            field, optional = split(field)
            properties[field] = value(kind, extras, one)
            if not optional:
                required.append(field)
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    return {"$schema": "http://json-schema.org/draft-07/schema#", **one(name)}


def openapi(name):
    def one(name):
        properties, required = {}, []
        for field, kind, extras in DOMAINS[name]:
            field, optional = split(field)
            extra = {"format": "int64"} if kind == I else {"format": "double"} if kind == N else {}
            schema = value(kind, {**extra, **extras}, lambda n: {"$ref": f"#/components/schemas/{n}"})
            if "$ref" not in schema:
                schema = {"description": f"The {field} of the {name}.", "example": None, **schema}
            properties[field] = schema
            if not optional:
                required.append(field)
        return {"type": "object", "required": required, "properties": properties, "x-go-name": name}

    names = closure(name)
    return {"$ref": f"#/components/schemas/{name}", "components": {"schemas": {n: one(n) for n in names}}}


def by_inheritance(name):
    """A base with allOf, as generators for languages with classes write it."""
    base = {"type": "object", "properties": {"kind": {"type": "string"}, "created": {"type": "string", "format": "date-time"}}, "required": ["kind"]}
    names = closure(name)

    def one(n):
        properties, required = {}, []
        for field, kind, extras in DOMAINS[n]:
            field, optional = split(field)
            properties[field] = value(kind, extras, lambda m: {"$ref": f"#/definitions/{m}"})
            if not optional:
                required.append(field)
        return {"allOf": [{"$ref": "#/definitions/Base"}, {"type": "object", "properties": properties, "required": required}]}

    return {"$schema": "http://json-schema.org/draft-07/schema", "definitions": {"Base": base, **{n: one(n) for n in names}}, "$ref": f"#/definitions/{name}"}


def unions():
    names = list(DOMAINS)
    for index in range(0, len(names) - 3, 3):
        group = names[index:index + 3]

        def tagged(name):
            properties = {"type": {"const": name.lower()}}
            for field, kind, extras in DOMAINS[name]:
                if "=" not in kind and field != "type":
                    properties[split(field)[0]] = value(kind, extras, None)
            return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}

        key = ["anyOf", "oneOf"][index // 3 % 2]
        yield "tagged union of " + ", ".join(group), {key: [tagged(n) for n in group]}


BY_HAND = {
    "package.json": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["name", "version"], "properties": {"name": {"type": "string", "maxLength": 214, "minLength": 1, "pattern": "^(?:@[a-z0-9-*~][a-z0-9-*._~]*/)?[a-z0-9-~][a-z0-9-._~]*$"}, "version": {"type": "string"}, "private": {"type": "boolean"}, "type": {"enum": ["commonjs", "module"]}, "keywords": {"type": "array", "items": {"type": "string"}}, "license": {"type": "string"}, "bin": {"type": ["string", "object"], "additionalProperties": {"type": "string"}}, "scripts": {"type": "object", "properties": {"build": {"type": "string"}, "test": {"type": "string"}}, "additionalProperties": {"type": "string"}}, "dependencies": {"$ref": "#/definitions/dependency"}, "devDependencies": {"$ref": "#/definitions/dependency"}, "engines": {"type": "object", "properties": {"node": {"type": "string"}}, "additionalProperties": {"type": "string"}}, "author": {"$ref": "#/definitions/person"}, "contributors": {"type": "array", "items": {"$ref": "#/definitions/person"}}, "files": {"type": "array", "items": {"type": "string"}}}, "definitions": {"dependency": {"type": "object", "additionalProperties": {"type": "string"}}, "person": {"type": ["object", "string"], "required": ["name"], "properties": {"name": {"type": "string"}, "url": {"type": "string", "format": "uri"}, "email": {"type": "string", "format": "email"}}}}},
    "tsconfig": {"type": "object", "properties": {"extends": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "compilerOptions": {"type": "object", "properties": {"target": {"type": "string", "anyOf": [{"enum": ["ES5", "ES2015", "ES2020", "ESNext"]}, {"pattern": "^([eE][sS]([356]|(20(1[56789]|2[012]))|[nN][eE][xX][tT]))$"}]}, "module": {"enum": ["CommonJS", "ESNext", "NodeNext"]}, "strict": {"type": "boolean", "default": False}, "lib": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}, "paths": {"type": "object", "additionalProperties": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}}, "outDir": {"type": "string"}}}, "files": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "include": {"type": "array", "items": {"type": "string"}}, "references": {"type": "array", "items": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}}, "allOf": [{"anyOf": [{"required": ["files"]}, {"required": ["include"]}, {"required": ["compilerOptions"]}]}]},
    "docker-compose": {"type": "object", "properties": {"version": {"type": "string", "deprecated": True}, "name": {"type": "string"}, "services": {"type": "object", "patternProperties": {"^[a-zA-Z0-9._-]+$": {"$ref": "#/definitions/service"}}, "additionalProperties": False}, "volumes": {"type": "object", "patternProperties": {"^[a-zA-Z0-9._-]+$": {"type": ["object", "null"], "properties": {"driver": {"type": "string"}, "external": {"type": ["boolean", "object"]}}}}}}, "patternProperties": {"^x-": {}}, "additionalProperties": False, "definitions": {"service": {"type": "object", "properties": {"image": {"type": "string"}, "build": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"context": {"type": "string"}, "dockerfile": {"type": "string"}, "args": {"$ref": "#/definitions/list_or_dict"}}, "additionalProperties": False}]}, "command": {"oneOf": [{"type": "null"}, {"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "environment": {"$ref": "#/definitions/list_or_dict"}, "ports": {"type": "array", "items": {"oneOf": [{"type": "number", "format": "ports"}, {"type": "string", "format": "ports"}]}, "uniqueItems": True}, "depends_on": {"oneOf": [{"$ref": "#/definitions/list_of_strings"}, {"type": "object", "additionalProperties": False, "patternProperties": {"^[a-zA-Z0-9._-]+$": {"type": "object", "properties": {"condition": {"enum": ["service_started", "service_healthy"]}}, "required": ["condition"]}}}]}, "restart": {"type": "string"}}, "additionalProperties": False}, "list_of_strings": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "list_or_dict": {"oneOf": [{"type": "object", "patternProperties": {".+": {"type": ["string", "number", "boolean", "null"]}}, "additionalProperties": False}, {"type": "array", "items": {"type": "string"}, "uniqueItems": True}]}}},
    "github workflow": {"type": "object", "required": ["on", "jobs"], "properties": {"name": {"type": "string"}, "on": {"oneOf": [{"enum": ["push", "pull_request"]}, {"type": "array", "items": {"enum": ["push", "pull_request"]}, "minItems": 1}, {"type": "object", "properties": {"push": {"type": ["object", "null"]}, "schedule": {"type": "array", "items": {"type": "object", "properties": {"cron": {"type": "string", "pattern": "^([0-9*,/-]+ ){4}[0-9*,/-]+$"}}, "required": ["cron"], "additionalProperties": False}, "minItems": 1}}, "additionalProperties": False}]}, "jobs": {"type": "object", "patternProperties": {"^[_a-zA-Z][a-zA-Z0-9_-]*$": {"type": "object", "required": ["runs-on"], "properties": {"runs-on": {"type": "string"}, "needs": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}, "steps": {"type": "array", "minItems": 1, "items": {"allOf": [{"oneOf": [{"type": "object", "properties": {"uses": {"type": "string"}}, "required": ["uses"]}, {"type": "object", "properties": {"run": {"type": "string"}}, "required": ["run"]}]}, {"type": "object", "properties": {"name": {"type": "string"}, "uses": {"type": "string"}, "run": {"type": "string"}, "env": {"type": "object", "additionalProperties": {"type": "string"}}}, "additionalProperties": False}]}}}, "additionalProperties": False}}, "minProperties": 1, "additionalProperties": False}}, "additionalProperties": False},
    "kubernetes deployment": {"type": "object", "required": ["apiVersion", "kind", "metadata", "spec"], "properties": {"apiVersion": {"const": "apps/v1"}, "kind": {"const": "Deployment"}, "metadata": {"$ref": "#/definitions/ObjectMeta"}, "spec": {"type": "object", "required": ["selector", "template"], "properties": {"replicas": {"type": ["integer", "null"], "format": "int32", "minimum": 0}, "selector": {"type": "object", "properties": {"matchLabels": {"$ref": "#/definitions/labels"}}}, "strategy": {"type": "object", "properties": {"type": {"enum": ["Recreate", "RollingUpdate"]}}}, "template": {"type": "object", "required": ["spec"], "properties": {"metadata": {"$ref": "#/definitions/ObjectMeta"}, "spec": {"type": "object", "required": ["containers"], "properties": {"containers": {"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/Container"}}}}}}}}}, "definitions": {"labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 63}}, "ObjectMeta": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}, "labels": {"$ref": "#/definitions/labels"}}}, "Container": {"type": "object", "required": ["name", "image"], "properties": {"name": {"type": "string"}, "image": {"type": "string"}, "ports": {"type": "array", "items": {"type": "object", "required": ["containerPort"], "properties": {"containerPort": {"type": "integer", "minimum": 1, "maximum": 65535}, "protocol": {"enum": ["TCP", "UDP"]}}}}, "resources": {"type": "object", "properties": {"limits": {"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}, {"type": "number"}]}}}}}}}},
    "geojson": {"$id": "https://example.com/geojson", "oneOf": [{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Polygon"}, {"$ref": "#/$defs/Feature"}], "$defs": {"position": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "number"}}, "Point": {"type": "object", "required": ["type", "coordinates"], "properties": {"type": {"enum": ["Point"]}, "coordinates": {"$ref": "#/$defs/position"}}}, "Polygon": {"type": "object", "required": ["type", "coordinates"], "properties": {"type": {"enum": ["Polygon"]}, "coordinates": {"type": "array", "items": {"type": "array", "minItems": 4, "items": {"$ref": "#/$defs/position"}}}}}, "Feature": {"type": "object", "required": ["type", "geometry", "properties"], "properties": {"type": {"enum": ["Feature"]}, "id": {"oneOf": [{"type": "number"}, {"type": "string"}]}, "geometry": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Polygon"}]}, "properties": {"oneOf": [{"type": "null"}, {"type": "object"}]}}}}},
    "json patch": {"type": "array", "items": {"oneOf": [{"additionalProperties": False, "required": ["value", "op", "path"], "properties": {"path": {"$ref": "#/definitions/path"}, "op": {"enum": ["add", "replace", "test"]}, "value": {}}, "type": "object"}, {"type": "object", "additionalProperties": False, "required": ["op", "path"], "properties": {"path": {"$ref": "#/definitions/path"}, "op": {"enum": ["remove"]}}}, {"type": "object", "additionalProperties": False, "required": ["from", "op", "path"], "properties": {"path": {"$ref": "#/definitions/path"}, "op": {"enum": ["move", "copy"]}, "from": {"$ref": "#/definitions/path"}}}]}, "definitions": {"path": {"type": "string", "format": "json-pointer"}}},
    "user interface": {"type": "object", "properties": {"type": {"type": "string", "enum": ["div", "button", "header", "section", "field", "form"]}, "label": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}, "attributes": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}, "required": ["name", "value"], "additionalProperties": False}}}, "required": ["type", "label", "children", "attributes"], "additionalProperties": False},
    "linked list": {"type": "object", "properties": {"linked_list": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"type": "object", "properties": {"value": {"type": "number"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "additionalProperties": False, "required": ["next", "value"]}}, "additionalProperties": False, "required": ["linked_list"]},
    "expression": {"$ref": "#/$defs/expr", "$defs": {"expr": {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/binary"}, {"$ref": "#/$defs/call"}]}, "binary": {"type": "object", "properties": {"op": {"enum": ["+", "-", "*", "/"]}, "left": {"$ref": "#/$defs/expr"}, "right": {"$ref": "#/$defs/expr"}}, "required": ["op", "left", "right"], "additionalProperties": False}, "call": {"type": "object", "properties": {"fn": {"type": "string", "pattern": "^[a-z]+$"}, "args": {"type": "array", "items": {"$ref": "#/$defs/expr"}}}, "required": ["fn", "args"], "additionalProperties": False}}},
    "mongo filter": {"type": "object", "patternProperties": {"^[a-z_]+$": {"anyOf": [{"type": ["string", "number", "boolean", "null"]}, {"type": "object", "properties": {"$gt": {"type": "number"}, "$lt": {"type": "number"}, "$in": {"type": "array"}}, "additionalProperties": False, "minProperties": 1}]}, "^\\$(and|or)$": {"type": "array", "minItems": 1, "items": {"$ref": "#"}}}, "additionalProperties": False},
    "credit card": {"type": "object", "properties": {"name": {"type": "string"}, "credit_card": {"type": "string", "pattern": "^[0-9]{16}$"}, "billing_address": {"type": "string"}}, "required": ["name"], "dependentRequired": {"credit_card": ["billing_address"]}},
    "postal code by country": {"type": "object", "properties": {"street": {"type": "string"}, "country": {"enum": ["US", "CA", "NL"]}, "postal_code": {"type": "string"}}, "required": ["street", "country", "postal_code"], "additionalProperties": False, "allOf": [{"if": {"properties": {"country": {"const": "US"}}}, "then": {"properties": {"postal_code": {"pattern": "^[0-9]{5}(-[0-9]{4})?$"}}}}, {"if": {"properties": {"country": {"const": "CA"}}}, "then": {"properties": {"postal_code": {"pattern": "^[A-Z][0-9][A-Z] [0-9][A-Z][0-9]$"}}}}, {"if": {"properties": {"country": {"const": "NL"}}}, "then": {"properties": {"postal_code": {"pattern": "^[0-9]{4} [A-Z]{2}$"}}}}]},
    "tuple": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}, {"enum": ["Street", "Avenue", "Boulevard"]}, {"enum": ["NW", "NE", "SW", "SE"]}], "items": {"type": "string"}, "minItems": 3},
    "draft 7 tuple": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [{"type": "integer"}, {"type": "boolean"}], "additionalItems": False},
    "extending closed": {"allOf": [{"$ref": "#/$defs/base"}], "properties": {"extra": {"type": "integer"}}, "unevaluatedProperties": False, "$defs": {"base": {"type": "object", "properties": {"id": {"type": "string"}, "at": {"type": "string", "format": "time"}}, "required": ["id"]}}},
    "fstab": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["/"], "properties": {"/": {"$ref": "#/$defs/entry"}}, "patternProperties": {"^(/[^/]+)+$": {"$ref": "#/$defs/entry"}}, "additionalProperties": False, "$defs": {"entry": {"type": "object", "properties": {"storage": {"type": "object", "oneOf": [{"properties": {"type": {"enum": ["disk"]}, "device": {"type": "string", "pattern": "^/dev/[^/]+(/[^/]+)*$"}}, "required": ["type", "device"], "additionalProperties": False}, {"properties": {"type": {"enum": ["nfs"]}, "remotePath": {"type": "string"}, "server": {"type": "string", "format": "hostname"}}, "required": ["type", "server", "remotePath"], "additionalProperties": False}, {"properties": {"type": {"enum": ["tmpfs"]}, "sizeInMB": {"type": "integer", "minimum": 16, "maximum": 512}}, "required": ["type", "sizeInMB"], "additionalProperties": False}]}, "fstype": {"enum": ["ext3", "ext4", "btrfs"]}, "options": {"type": "array", "minItems": 1, "items": {"type": "string"}, "uniqueItems": True}, "readonly": {"type": "boolean"}}, "required": ["storage"]}}},
    "vscode task": {"type": "object", "properties": {"label": {"type": "string"}, "type": {"enum": ["shell", "process"]}, "command": {"type": "string"}, "args": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"value": {"type": "string"}, "quoting": {"enum": ["escape", "strong", "weak"]}}, "required": ["value", "quoting"]}]}}, "group": {"oneOf": [{"type": "string", "enum": ["build", "test", "none"]}, {"type": "object", "properties": {"kind": {"enum": ["build", "test"]}, "isDefault": {"type": "boolean"}}, "required": ["kind"]}]}, "options": {"type": "object", "properties": {"cwd": {"type": "string"}, "env": {"type": "object", "additionalProperties": {"type": "string"}}}}}, "required": ["label", "command"]},
    "renovate": {"type": "object", "properties": {"extends": {"type": "array", "items": {"type": "string"}}, "schedule": {"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}, "prConcurrentLimit": {"type": "integer", "minimum": 0}, "packageRules": {"type": "array", "items": {"type": "object", "properties": {"matchPackageNames": {"type": "array", "items": {"type": "string"}}, "enabled": {"type": "boolean"}, "automerge": {"type": "boolean"}}}}}, "additionalProperties": True},
    "eslint rules": {"type": "object", "properties": {"rules": {"type": "object", "additionalProperties": {"anyOf": [{"$ref": "#/definitions/level"}, {"type": "array", "items": [{"$ref": "#/definitions/level"}], "minItems": 1}]}}, "env": {"type": "object", "additionalProperties": {"type": "boolean"}}}, "definitions": {"level": {"anyOf": [{"type": "number", "enum": [0, 1, 2]}, {"type": "string", "enum": ["off", "warn", "error"]}]}}},
    "slack blocks": {"type": "object", "required": ["blocks"], "properties": {"blocks": {"type": "array", "maxItems": 50, "items": {"anyOf": [{"type": "object", "properties": {"type": {"const": "section"}, "text": {"$ref": "#/$defs/text"}, "fields": {"type": "array", "maxItems": 10, "items": {"$ref": "#/$defs/text"}}}, "required": ["type"], "anyOf": [{"required": ["text"]}, {"required": ["fields"]}], "additionalProperties": False}, {"type": "object", "properties": {"type": {"const": "divider"}}, "required": ["type"], "additionalProperties": False}]}}}, "$defs": {"text": {"type": "object", "properties": {"type": {"enum": ["plain_text", "mrkdwn"]}, "text": {"type": "string", "maxLength": 3000}, "emoji": {"type": "boolean"}}, "required": ["type", "text"], "additionalProperties": False}}},
    "no empty text": {"type": "object", "properties": {"answer": {"type": "string", "not": {"enum": ["", "unknown"]}}, "code": {"type": "integer", "not": {"const": 0}}}, "required": ["answer", "code"]},
    "at least one contact": {"type": "object", "properties": {"phone": {"type": "string", "pattern": "^\\+[1-9][0-9]{6,14}$"}, "mail": {"type": "string", "format": "email"}}, "anyOf": [{"required": ["phone"]}, {"required": ["mail"]}], "additionalProperties": False},
    "exactly one source": {"type": "object", "properties": {"file": {"type": "string"}, "url": {"type": "string", "format": "uri-reference"}, "inline": {"type": "string"}}, "oneOf": [{"required": ["file"]}, {"required": ["url"]}, {"required": ["inline"]}], "additionalProperties": False},
    "password": {"type": "object", "properties": {"password": {"type": "string", "pattern": "^(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9!?]{8,20}$"}}, "required": ["password"], "additionalProperties": False},
    "matrix": {"type": "array", "minItems": 3, "maxItems": 3, "items": {"type": "array", "minItems": 3, "maxItems": 3, "items": {"type": "number", "minimum": -1, "maximum": 1}}},
    "versions": {"type": "object", "propertyNames": {"pattern": "^v[0-9]+$"}, "additionalProperties": {"type": "object", "properties": {"released": {"type": "boolean"}}, "required": ["released"]}, "minProperties": 1, "maxProperties": 5},
    "contains a default": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}, "default": {"type": "boolean"}}, "required": ["id", "default"], "additionalProperties": False}, "contains": {"properties": {"default": {"const": True}}}, "minItems": 1},
    "any json": {},
    "free form arguments": {"type": "object", "properties": {}, "additionalProperties": True},
    "unique objects": {"type": "array", "uniqueItems": True, "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
}


def main():
    lines = []
    dialects = [("strict", strict), ("pydantic", pydantic), ("zod", zod), ("openapi", openapi), ("allOf", by_inheritance)]
    for index, name in enumerate(DOMAINS):
        for offset in range(4):
            label, make = dialects[(index + offset) % len(dialects)]
            lines.append((f"{label} {name}", make(name)))
    lines += list(unions())
    lines += list(BY_HAND.items())
    HERE.write_text("".join(json.dumps({"name": n, "schema": s}, separators=(",", ":")) + "\n" for n, s in lines))
    print(len(lines), "schemas,", HERE.stat().st_size, "bytes")


main()
