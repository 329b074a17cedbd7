// Judges a request by its head: where it goes, what it brings, and the reasons to refuse it before its body is read.
import type { IncomingMessage } from 'node:http';
import { EdgeError, type Mistake } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { type Answer, errorAnswer } from './answer.ts';
import { matchRoute, type RawInput, type Route } from './routes.ts';

export type Head =
  | { readonly kind: 'refused'; readonly answer: Answer }
  | { readonly kind: 'accepted'; readonly route: Route; readonly input: Omit<RawInput, 'body'> };

const jsonType = /^application\/json *(; *charset="?utf-8"? *)?$/i;
const queryPattern = /^[A-Za-z0-9._:=&-]*$/;

export function readHead(request: IncomingMessage): Head {
  const [path, ...queries] = (request.url ?? '').split('?');
  const match = matchRoute(request.method ?? '', path ?? '');
  if (match.kind === 'unknown') {
    return refuse(new EdgeError('not-found', 'there is nothing at this path', { hint: 'paths begin with /v1/' }), 404);
  }
  if (match.kind === 'wrong-method') {
    const allow = match.allowed.join(', ');
    const error = invalid(`${request.method} is not possible at this path`, `use ${allow}`);
    return { kind: 'refused', answer: { ...errorAnswer(error, 405), allow } };
  }
  const { route, place } = match;
  const refusal = judgeExpectation(request) ?? (route.bodyBytesMax > 0 ? judgeBody(request, route) : null);
  if (refusal !== null) {
    return refusal;
  }
  const query = readQuery(queries);
  if ('mistakes' in query) {
    return { kind: 'refused', answer: mistakesAnswer(query.mistakes) };
  }
  // A browser's EventSource comes back to the address that it was first given, and says this beside it.
  const last = request.headers['last-event-id'];
  const after = Array.isArray(last) ? last.join(',') : last;
  const isResumed = route.isResumable && after !== undefined;
  return {
    kind: 'accepted',
    route,
    input: { place, query: isResumed ? { ...query.fields, after } : query.fields },
  };
}

/** Everything that is wrong with the fields of a request. */
export function mistakesAnswer(mistakes: readonly Mistake[]): Answer {
  const { path, rule } = mistakes[0]!;
  const more = mistakes.length > 1 ? ` (and ${mistakes.length - 1} more)` : '';
  const message = `${path === '' ? 'the request' : path} ${rule}${more}`;
  return errorAnswer(new EdgeError('invalid', message, { hint: 'correct the fields named and try again', mistakes }));
}

/** `status` 413: more than the route takes. */
export function tooLongAnswer(route: Route): Answer {
  const { bodyBytesMax } = route;
  const message = bodyBytesMax === 0 ? 'this request takes no body' : `the body has more than ${bodyBytesMax} bytes`;
  return errorAnswer(invalid(message, 'send less'), 413);
}

function judgeExpectation(request: IncomingMessage): Head | null {
  const { expect } = request.headers;
  return expect === undefined || expect.toLowerCase() === '100-continue'
    ? null
    : refuse(invalid('only 100-continue may be expected', 'send the request without Expect'), 417);
}

function judgeBody(request: IncomingMessage, route: Route): Head | null {
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (!jsonType.test(request.headers['content-type'] ?? '') || encoding !== 'identity') {
    const hint = 'send Content-Type: application/json, in UTF-8 and without Content-Encoding';
    return refuse(invalid('the body must be JSON', hint), 415);
  }
  const declaredBytes = Number(request.headers['content-length'] ?? 0);
  return declaredBytes > route.bodyBytesMax ? { kind: 'refused', answer: tooLongAnswer(route) } : null;
}

type QueryReading = { readonly fields: Readonly<Record<string, string>> } | { readonly mistakes: readonly Mistake[] };

function readQuery(queries: readonly string[]): QueryReading {
  const [query = ''] = queries;
  if (queries.length > 1 || !queryPattern.test(query)) {
    return { mistakes: [{ file: null, path: '', line: null, rule: 'must have a plain query: name=value' }] };
  }
  const entries = [...new URLSearchParams(query)];
  const names = entries.map(([name]) => name);
  const repeated = names.filter((name, index) => names.indexOf(name) !== index);
  if (repeated.length > 0) {
    const mistakes = repeated.map((path) => ({ file: null, path, line: null, rule: 'is given more than once' }));
    return { mistakes: mistakes.slice(0, limits.mistakesMax) };
  }
  return { fields: Object.fromEntries(entries) };
}

function refuse(error: EdgeError, status: number): Head {
  return { kind: 'refused', answer: errorAnswer(error, status) };
}

function invalid(message: string, hint: string): EdgeError {
  return new EdgeError('invalid', message, { hint });
}
