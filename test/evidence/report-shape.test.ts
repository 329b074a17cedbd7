// The hand-written check of a report's shape and its JSON schema accept the same documents.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { printReport } from '../../edge-evidence/report.ts';
import { findShapeFaults } from '../../edge-evidence/report-shape.ts';
import { accepts, type Schema } from '../core/json-schema.ts';
import { crashWindowScenarios, sampleReport } from './report-samples.ts';

const schemaFile = join(import.meta.dirname, '../../schema/evidence.schema.json');
const schema = JSON.parse(readFileSync(schemaFile, 'utf8')) as Schema;

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const attestation = { by: 'an operator', at: '2026-01-31T11:00:00.000Z' };
const report = JSON.parse(printReport(sampleReport({ attestation }))) as Json;

/** Every place of a document, as the keys that lead to it. */
function placesOf(value: Json, path: readonly string[] = []): readonly (readonly string[])[] {
  const members = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return [path, ...members.flatMap(([key, member]) => placesOf(member, [...path, key]))];
}

/** The document with another value at a place; undefined takes the place away. */
function withValue(document: Json, path: readonly string[], value: Json | undefined): Json {
  const [key, ...rest] = path;
  if (key === undefined) {
    return value ?? null;
  }
  const copy = structuredClone(document) as { [key: string]: Json };
  if (rest.length > 0) {
    copy[key] = withValue(copy[key]!, rest, value);
  } else if (value === undefined) {
    Array.isArray(copy) ? copy.splice(Number(key), 1) : delete copy[key];
  } else {
    copy[key] = value;
  }
  return copy;
}

t.test('both accept what collectors write', async (t) => {
  const whole = sampleReport({ kind: 'crash-window', scenarios: crashWindowScenarios() });
  for (const document of [report, JSON.parse(printReport(whole)) as Json]) {
    t.same(findShapeFaults(document), []);
    t.ok(accepts(schema, document));
  }
});

t.test('both accept and refuse the same, whatever stands at whichever place', async (t) => {
  const values = [
    ...[undefined, null, true, 0, 1, -1, 1.5, 2 ** 53, '', 'x', 'x'.repeat(8193), '😀'.repeat(8192), [], {}],
    ...['ab'.repeat(32), '2026-01-31T12:00:00.000Z', 'wal-full', 'faults', ['x'], [''], { x: 1 }, { 'a b': 1 }],
    ...[Array.from({ length: 1001 }, () => 'x'), { x: 1.5 }, { x: 'y' }, attestation, { ...attestation, why: 'x' }],
  ];
  const disagreements: string[] = [];
  let [accepted, refused] = [0, 0];
  for (const path of placesOf(report)) {
    for (const value of values) {
      const document = withValue(report, path, value as Json);
      const isAccepted = findShapeFaults(document).length === 0;
      accepted += isAccepted ? 1 : 0;
      refused += isAccepted ? 0 : 1;
      if (isAccepted !== accepts(schema, document)) {
        disagreements.push(`${path.join('.')} = ${JSON.stringify(value)?.slice(0, 80)}: by hand ${isAccepted}`);
      }
    }
  }
  t.same(disagreements, []);
  t.ok(accepted > 100 && refused > 500, `${accepted} accepted, ${refused} refused`);
});
