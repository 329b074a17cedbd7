// The closed shape of a report: what a file must be made of before anything in it is believed. The same as
// schema/evidence.schema.json, which a test compares with this.
import { kinds, reportModes } from './report.ts';

/** What does not fit, each with its place; empty where it fits. */
type Check = (value: unknown, at: string) => readonly string[];

const fail = (at: string, what: string): readonly string[] => [`${at === '' ? 'the report' : at} ${what}`];

const when =
  (holds: (value: unknown) => boolean, what: string): Check =>
  (value, at) =>
    holds(value) ? [] : fail(at, `is not ${what}`);

const integer = (min: number) =>
  when((value) => Number.isSafeInteger(value) && (value as number) >= min, `a whole number from ${min}`);
const boolean = when((value) => typeof value === 'boolean', 'true or false');
const matching = (pattern: RegExp, what: string) =>
  when((value) => typeof value === 'string' && pattern.test(value), what);
const oneOf = (allowed: readonly string[]) =>
  when((value) => typeof value === 'string' && allowed.includes(value), `one of ${allowed.join(', ')}`);

const textCharactersMax = 8192;
const text = when(
  (value) =>
    typeof value === 'string' && value.isWellFormed() && [...value].length <= textCharactersMax && value !== '',
  `a text of 1 to ${textCharactersMax} characters`,
);

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Exactly these fields, all of them. */
function object(fields: Readonly<Record<string, Check>>): Check {
  return (value, at) => {
    if (!isObject(value)) {
      return fail(at, 'is not an object');
    }
    const unknown = Object.keys(value).filter((name) => !Object.hasOwn(fields, name));
    return [
      ...unknown.flatMap((name) => fail(join(at, name), 'is unknown')),
      ...Object.entries(fields).flatMap(([name, check]) =>
        Object.hasOwn(value, name) ? check(value[name], join(at, name)) : fail(join(at, name), 'is missing'),
      ),
    ];
  };
}

const namePattern = /^[A-Za-z][A-Za-z0-9]{0,63}$/;

/** Any names, values alike. */
function record(check: Check): Check {
  return (value, at) =>
    isObject(value)
      ? Object.entries(value).flatMap(([name, member]) =>
          namePattern.test(name)
            ? check(member, join(at, name))
            : fail(join(at, name), 'is no name of letters and digits'),
        )
      : fail(at, 'is not an object');
}

function list(check: Check, max: number): Check {
  return (value, at) =>
    Array.isArray(value) && value.length <= max
      ? value.flatMap((member, index) => check(member, `${at}[${index}]`))
      : fail(at, `is not a list of at most ${max}`);
}

const nullable =
  (check: Check): Check =>
  (value, at) =>
    value === null ? [] : check(value, at);

const anyOf =
  (...checks: readonly Check[]): Check =>
  (value, at) =>
    checks.some((check) => check(value, at).length === 0) ? [] : fail(at, 'is no text, whole number or truth value');

function join(at: string, name: string): string {
  return at === '' ? name : `${at}.${name}`;
}

const digest = matching(/^[0-9a-f]{64}$/, 'a SHA-256 in hex');
const time = matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'a time like 2026-01-31T12:00:00.000Z');
const figure = integer(Number.MIN_SAFE_INTEGER);
const strings = list(text, 1000);

const report = object({
  schema: oneOf(['qinglong/evidence@v1']),
  kind: oneOf(kinds),
  collectedAt: time,
  subject: object({ bundleSha256: digest, bundleBytes: integer(1), version: text }),
  environment: object({
    node: text,
    sqlite: text,
    sqliteOptions: strings,
    architecture: text,
    kernel: text,
    libc: text,
    cpu: object({ model: text, count: integer(1) }),
    memoryKib: integer(1),
    fileSystem: object({ type: text, mountOptions: strings }),
  }),
  parameters: record(anyOf(text, figure, boolean)),
  scenarios: list(
    object({
      name: text,
      mode: oneOf(reportModes),
      isControl: boolean,
      passed: boolean,
      figures: record(figure),
      failures: list(text, 1000),
    }),
    10_000,
  ),
  summary: object({ scenarios: integer(0), passed: integer(0), failed: integer(0) }),
  limits: strings,
  physicalPowerLossProven: boolean,
  attestation: nullable(object({ by: text, at: time })),
  reportDigest: digest,
});

/** Every place at which a value is not a report; empty for one that is. */
export function findShapeFaults(value: unknown): readonly string[] {
  return report(value, '');
}
