// What embedders hand over, checked where it enters: a wrong argument is `invalid`, with every mistake, and never
// reaches an operation.
import { EdgeError } from '../core/errors.ts';
import { isDigest, isIdentifier, isPackageName, isPortableId, isResourceId } from '../core/ids.ts';
import { limits } from '../core/limits.ts';
import { runTransitions } from '../core/states.ts';

type Rule = { readonly accepts: (value: unknown) => boolean; readonly rule: string };

const text = (accepts: (value: string) => boolean, rule: string): Rule => ({
  accepts: (value) => typeof value === 'string' && accepts(value),
  rule,
});

const rules = {
  runId: text(isPortableId, 'must be the id of a run'),
  packageName: text(isPackageName, 'must be a package name: 1 to 63 of a-z, 0-9, -'),
  workflowId: text(isResourceId, 'must be the id of a workflow: 1 to 63 of a-z, 0-9, -'),
  requestedBy: text(isIdentifier, 'must be an identifier of 1 to 128 of A-Z, a-z, 0-9, ., _, :, -'),
  idempotencyKey: {
    accepts: (value) => value === null || (typeof value === 'string' && isIdentifier(value)),
    rule: 'must be an identifier of 1 to 128 of A-Z, a-z, 0-9, ., _, :, -',
  },
  path: text((value) => value !== '', 'must be the path of a directory or an archive'),
  keyId: text(isIdentifier, 'must be the id of a key'),
  publicKey: text(isDigest, 'must be the 32 bytes of an Ed25519 key as 64 hex digits'),
  status: {
    accepts: (value) => value === null || Object.hasOwn(runTransitions, `${value}`),
    rule: `must be one of ${Object.keys(runTransitions).join(', ')}`,
  },
  beforeRunId: {
    accepts: (value) => value === null || (typeof value === 'string' && isPortableId(value)),
    rule: 'must be the id of a run',
  },
  onStop: { accepts: (value) => value === 'stop' || value === 'detach', rule: 'must be stop or detach' },
  reason: text((value) => value !== '' && Buffer.byteLength(value) <= limits.errorSummaryBytesMax, 'must be a text'),
  limit: {
    accepts: (value) => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= limits.pageMax,
    rule: `must be a whole number from 1 to ${limits.pageMax}`,
  },
  after: {
    accepts: (value) => Number.isInteger(value) && (value as number) >= 0,
    rule: 'must be a sequence number, 0 for the beginning',
  },
} as const satisfies Record<string, Rule>;

/**
 * Throws `invalid` for a request that is no object, so that its fields can be looked at. `form` is what it should be,
 * such as `start({ packageName, workflowId })`.
 */
export function checkRequest(request: unknown, form: string): void {
  if (typeof request !== 'object' || request === null || Array.isArray(request)) {
    const rule = 'must be an object';
    throw new EdgeError('invalid', `the request ${rule}`, {
      hint: `call it so: ${form}`,
      mistakes: [{ file: null, path: '', line: null, rule }],
    });
  }
}

/** Throws `invalid` naming every field that breaks its rule. */
export function checkArguments(fields: { readonly [K in keyof typeof rules]?: unknown }): void {
  const broken = Object.entries(fields).filter(([name, value]) => !rules[name as keyof typeof rules].accepts(value));
  if (broken.length === 0) {
    return;
  }
  const mistakes = broken.map(([path]) => {
    const { rule } = rules[path as keyof typeof rules];
    return { file: null, path, line: null, rule };
  });
  const [first] = mistakes;
  throw new EdgeError('invalid', `${first!.path} ${first!.rule}`, { hint: 'correct it and call again', mistakes });
}
