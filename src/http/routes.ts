// Every route in one table: method, path, what its fields may hold, and the verb. What is not here does not exist: a
// path is matched as it was sent, and no other spelling of it is understood.
import type { Mistake } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import type { OnStop, RuntimeSettings } from '../runtime/settings.ts';
import type { Verbs } from '../runtime/verbs.ts';
import {
  type Fields,
  identifierField,
  lifecycleField,
  limitField,
  optionalIdentifierField,
  optionalOnStopField,
  optionalReasonField,
  packageNameField,
  pathField,
  planField,
  publicKeyField,
  readFields,
  reasonField,
  resourceIdField,
  type Shape,
  sequenceField,
  settingNameField,
  settingValueField,
} from './fields.ts';

export type Method = 'GET' | 'POST';

/** What the process says of itself in `/v1/health`. */
export type Describe = () => Readonly<Record<string, unknown>>;

/** What a holder says of itself, to whoever may use its socket. */
export type HolderStatus = {
  readonly phase: 'opening' | 'open' | 'closing';
  readonly pid: number;
  readonly command: string;
  readonly version: string;
  /** The settings in force, wherever they come from. */
  readonly settings: RuntimeSettings;
  /** Why nothing is started now, whatever is ready; null where nothing keeps it back. */
  readonly heldBack: string | null;
};

export type StopOutcome =
  /** The process ends as at a SIGTERM, within that time; it has not ended yet. */
  | { readonly kind: 'stopping'; readonly pid: number; readonly onStop: OnStop; readonly stopLimitMs: number }
  /** It is no daemon: something else than a request decides when it ends. */
  | { readonly kind: 'not-allowed'; readonly pid: number; readonly command: string };

export type Served = {
  readonly verbs: Verbs;
  readonly describe: Describe;
  readonly status: () => HolderStatus;
  /** Asks the process to end; null for `onStop` takes its setting. */
  readonly requestStop: (request: { readonly onStop: OnStop | null }) => StopOutcome;
};

/** The parts of a request that carry fields, none of them checked. `body` is undefined where the route has none. */
export type RawInput = {
  readonly place: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly body: unknown;
};

export type Prepared =
  | { readonly kind: 'refused'; readonly mistakes: readonly Mistake[] }
  | { readonly kind: 'document'; readonly ask: (served: Served) => Promise<unknown> }
  | { readonly kind: 'events'; readonly open: (served: Served) => AsyncIterable<RunEvent> };

export type Route = {
  readonly method: Method;
  /** Segments after `/v1`; one that begins with a colon names a field. */
  readonly segments: readonly string[];
  /** 0 where there is no body. */
  readonly bodyBytesMax: number;
  /** Whether `Last-Event-ID` says where to go on, whatever the query says. */
  readonly isResumable: boolean;
  readonly prepare: (input: RawInput) => Prepared;
};

type RouteOptions<P extends Shape, Q extends Shape, B extends Shape> = {
  readonly method: Method;
  readonly path: string;
  readonly place: P;
  readonly query: Q;
  readonly body: B;
  readonly bodyBytesMax?: number;
};

type Input<P extends Shape, Q extends Shape, B extends Shape> = Fields<P> & Fields<Q> & Fields<B>;

const none = {} as const satisfies Shape;

function route<P extends Shape, Q extends Shape, B extends Shape>(
  options: RouteOptions<P, Q, B>,
  begin: (input: Input<P, Q, B>) => Exclude<Prepared, { kind: 'refused' }>,
): Route {
  const { method, path, place, query, body } = options;
  const hasBody = method === 'POST';
  return {
    method,
    segments: path.split('/').slice(2),
    bodyBytesMax: hasBody ? (options.bodyBytesMax ?? limits.httpBodyBytesMax) : 0,
    isResumable: Object.hasOwn(query, 'after'),
    prepare: (input) => {
      const readings = [readFields(place, input.place), readFields(query, input.query)];
      const bodyReading = hasBody ? readFields(body, input.body) : { fields: {} };
      const mistakes = [...readings, bodyReading].flatMap((reading) => ('mistakes' in reading ? reading.mistakes : []));
      if (mistakes.length > 0) {
        return { kind: 'refused', mistakes };
      }
      const fields = [...readings, bodyReading].map((reading) => ('fields' in reading ? reading.fields : {}));
      return begin(Object.assign({}, ...fields));
    },
  };
}

function document<P extends Shape, B extends Shape>(
  options: Omit<RouteOptions<P, Record<never, never>, B>, 'query'>,
  ask: (served: Served, input: Input<P, Record<never, never>, B>) => Promise<unknown>,
): Route {
  return route({ ...options, query: none }, (input) => ({ kind: 'document', ask: (served) => ask(served, input) }));
}

export const routes: readonly Route[] = [
  document({ method: 'GET', path: '/v1/health', place: none, body: none }, async ({ describe }) => ({
    status: 'ok',
    ...describe(),
  })),
  document({ method: 'GET', path: '/v1/status', place: none, body: none }, async ({ status }) => status()),
  document(
    { method: 'POST', path: '/v1/stop', place: none, body: { onStop: optionalOnStopField } },
    async ({ requestStop }, input) => requestStop(input),
  ),
  document({ method: 'POST', path: '/v1/packages', place: none, body: { path: pathField } }, ({ verbs }, input) =>
    verbs.install(input),
  ),
  document(
    {
      method: 'POST',
      path: '/v1/packages/:packageName/lifecycle',
      place: { packageName: packageNameField },
      body: { to: lifecycleField, reason: optionalReasonField },
    },
    ({ verbs }, input) => verbs.changeLifecycle(input),
  ),
  document(
    {
      method: 'POST',
      path: '/v1/packages/:packageName/quarantine',
      place: { packageName: packageNameField },
      body: { reason: reasonField, requestedBy: identifierField },
    },
    ({ verbs }, input) => verbs.quarantine(input),
  ),
  document(
    { method: 'POST', path: '/v1/publishers', place: none, body: { publicKey: publicKeyField } },
    ({ verbs }, input) => verbs.addPublisher(input),
  ),
  document(
    {
      method: 'POST',
      path: '/v1/publishers/:keyId/revocation',
      place: { keyId: identifierField },
      body: { reason: reasonField, requestedBy: identifierField },
    },
    ({ verbs }, input) => verbs.revokePublisher(input),
  ),
  document(
    {
      method: 'POST',
      path: '/v1/packages/:packageName/settings',
      place: { packageName: packageNameField },
      body: { name: settingNameField, value: settingValueField },
      bodyBytesMax: limits.httpSettingBodyBytesMax,
    },
    ({ verbs }, input) => verbs.changeSetting(input),
  ),
  document(
    {
      method: 'POST',
      path: '/v1/runs',
      place: none,
      body: {
        packageName: packageNameField,
        workflowId: resourceIdField,
        idempotencyKey: optionalIdentifierField,
        requestedBy: identifierField,
      },
    },
    ({ verbs }, input) => verbs.start(input),
  ),
  document(
    {
      method: 'POST',
      path: '/v1/admissions',
      place: none,
      body: { plan: planField, requestedBy: identifierField },
      bodyBytesMax: limits.httpPlanBodyBytesMax,
    },
    ({ verbs }, input) => verbs.admit(input),
  ),
  document({ method: 'POST', path: '/v1/advance', place: none, body: { limit: limitField } }, ({ verbs }, input) =>
    verbs.advance(input),
  ),
  document(
    {
      method: 'POST',
      path: '/v1/runs/:runId/cancel',
      place: { runId: identifierField },
      body: { requestedBy: identifierField },
    },
    ({ verbs }, input) => verbs.cancel(input),
  ),
  document(
    {
      method: 'POST',
      path: '/v1/runs/:runId/retry',
      place: { runId: identifierField },
      body: { idempotencyKey: optionalIdentifierField, requestedBy: identifierField },
    },
    ({ verbs }, input) => verbs.retry(input),
  ),
  document(
    { method: 'POST', path: '/v1/runs/:runId/clear', place: { runId: identifierField }, body: none },
    ({ verbs }, input) => verbs.clearSetAside(input),
  ),
  route(
    {
      method: 'GET',
      path: '/v1/runs/:runId/events',
      place: { runId: identifierField },
      query: { after: sequenceField },
      body: none,
    },
    (input) => ({ kind: 'events', open: ({ verbs }) => verbs.follow(input) }),
  ),
];

export type Match =
  | { readonly kind: 'found'; readonly route: Route; readonly place: Readonly<Record<string, string>> }
  | { readonly kind: 'wrong-method'; readonly allowed: readonly Method[] }
  | { readonly kind: 'unknown' };

// No name needs an escape, so none is understood; a segment begins with a letter or digit, so there is no `.`, no `..`
// and no empty one.
const pathPattern = /^\/v1(\/[A-Za-z0-9][A-Za-z0-9._:-]*)+$/;

/** Finds the route of a path as it stands in the request line, less its query. */
export function matchRoute(method: string, path: string): Match {
  if (!pathPattern.test(path)) {
    return { kind: 'unknown' };
  }
  const segments = path.split('/').slice(2);
  const candidates = routes.filter((route) => fits(route, segments));
  const found = candidates.find((route) => route.method === method);
  if (found !== undefined) {
    const named = found.segments.map((name, index) => [name.slice(1), segments[index]!, name.startsWith(':')] as const);
    return { kind: 'found', route: found, place: pick(named) };
  }
  return candidates.length === 0
    ? { kind: 'unknown' }
    : { kind: 'wrong-method', allowed: candidates.map((route) => route.method) };
}

function fits(route: Route, segments: readonly string[]): boolean {
  return (
    route.segments.length === segments.length &&
    route.segments.every((name, index) => name.startsWith(':') || name === segments[index])
  );
}

function pick(named: readonly (readonly [string, string, boolean])[]): Readonly<Record<string, string>> {
  return Object.fromEntries(named.filter(([, , isField]) => isField).map(([name, value]) => [name, value]));
}
