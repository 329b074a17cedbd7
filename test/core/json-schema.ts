// As much of JSON Schema 2020-12 as the schemas of this project use, so that a test can hold them against what reads
// and writes such documents. A keyword that is not here is an error: nothing in a schema goes unchecked. Not a test.

export type Schema = { readonly [keyword: string]: unknown };
type Check = (value: unknown, argument: never, schema: Schema, root: Schema) => boolean;

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const entriesOf = (value: unknown) => (isObject(value) ? Object.entries(value) : []);
const lengthOf = (value: unknown) => (typeof value === 'string' ? [...value].length : null);

const typeChecks: Readonly<Record<string, (value: unknown) => boolean>> = {
  object: isObject,
  array: Array.isArray,
  string: (value) => typeof value === 'string',
  boolean: (value) => typeof value === 'boolean',
  integer: (value) => Number.isInteger(value),
  number: (value) => typeof value === 'number',
  null: (value) => value === null,
};

const annotations = new Set(['$schema', '$defs', 'title', 'description', 'default']);

const checks: Readonly<Record<string, Check>> = {
  $ref: (value, ref: string, _, root) => accepts(resolve(root, ref), value, root),
  type: (value, type: string) => typeChecks[type]!(value),
  const: (value, expected: unknown) => value === expected,
  enum: (value, allowed: readonly unknown[]) => allowed.includes(value),
  pattern: (value, pattern: string) => typeof value !== 'string' || new RegExp(pattern, 'u').test(value),
  minLength: (value, min: number) => (lengthOf(value) ?? min) >= min,
  maxLength: (value, max: number) => (lengthOf(value) ?? max) <= max,
  minimum: (value, min: number) => typeof value !== 'number' || value >= min,
  maximum: (value, max: number) => typeof value !== 'number' || value <= max,
  minItems: (value, min: number) => !Array.isArray(value) || value.length >= min,
  maxItems: (value, max: number) => !Array.isArray(value) || value.length <= max,
  uniqueItems: (value) => !Array.isArray(value) || new Set(value).size === value.length,
  items: (value, schema: Schema, _, root) =>
    !Array.isArray(value) || value.every((item) => accepts(schema, item, root)),
  required: (value, keys: readonly string[]) => !isObject(value) || keys.every((key) => Object.hasOwn(value, key)),
  minProperties: (value, min: number) => !isObject(value) || Object.keys(value).length >= min,
  maxProperties: (value, max: number) => !isObject(value) || Object.keys(value).length <= max,
  propertyNames: (value, schema: Schema, _, root) => entriesOf(value).every(([key]) => accepts(schema, key, root)),
  properties: (value, schemas: Readonly<Record<string, Schema>>, _, root) =>
    entriesOf(value).every(([key, entry]) => !Object.hasOwn(schemas, key) || accepts(schemas[key]!, entry, root)),
  additionalProperties: (value, schema: Schema | false, { properties = {} }, root) =>
    entriesOf(value).every(
      ([key, entry]) => Object.hasOwn(properties as object, key) || (schema !== false && accepts(schema, entry, root)),
    ),
  oneOf: (value, schemas: readonly Schema[], _, root) =>
    schemas.filter((schema) => accepts(schema, value, root)).length === 1,
};

/** Whether the schema accepts the value. Throws for a keyword that is not known here. */
export function accepts(schema: Schema, value: unknown, root: Schema = schema): boolean {
  return Object.entries(schema).every(([keyword, argument]) => {
    if (annotations.has(keyword)) {
      return true;
    }
    const check = checks[keyword];
    if (check === undefined) {
      throw new RangeError(`keyword ${keyword} is not known`);
    }
    return check(value, argument as never, schema, root);
  });
}

/** The schema that a `#/…` reference names. */
export function resolve(root: Schema, reference: string): Schema {
  const found = reference
    .replace(/^#\//, '')
    .split('/')
    .reduce<unknown>((at, key) => (at as Schema)[key], root);
  return found as Schema;
}
