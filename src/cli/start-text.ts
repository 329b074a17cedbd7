// What starting and admitting say: the run, or the refusal; and the document for programs.
import type { AdmitOutcome, StartOutcome } from '../protocol/admit.ts';
import type { Context } from './command.ts';
import { type Failure, refusal } from './failure.ts';
import { hintRunId } from './run-id.ts';
import type { Session } from './session.ts';

export type Started =
  | { readonly kind: 'run'; readonly runId: string; readonly isNew: boolean; readonly isPruned: boolean }
  | { readonly kind: 'refused'; readonly failure: Failure };

/** `self` is how this program is called; `packageName` is what was to be started; `isOfPlan`: a plan was given. */
export function readStart(
  outcome: StartOutcome,
  {
    self,
    packageName,
    isOfPlan = false,
  }: { readonly self: string; readonly packageName: string; readonly isOfPlan?: boolean },
): Started {
  switch (outcome.kind) {
    case 'created':
    case 'existing':
      return { kind: 'run', runId: outcome.receipt.runId, isNew: outcome.kind === 'created', isPruned: false };
    case 'existing-pruned':
      return { kind: 'run', runId: outcome.runId, isNew: false, isPruned: true };
    case 'conflict':
      return refused('conflict', outcome.reason, isOfPlan ? 'make the plan again' : 'use another key');
    case 'not-allowed':
      return refused('not-allowed', outcome.reason, notAllowedHint(outcome.code, { self, packageName }));
    case 'not-found':
      return refused('not-found', outcome.reason, `see \`${self} workflow list\``);
  }
}

function notAllowedHint(
  code: string,
  { self, packageName }: { readonly self: string; readonly packageName: string },
): string {
  switch (code) {
    case 'package_disabled':
      return `let it start again: ${self} package enable ${packageName}`;
    case 'package_uninstalled':
      return `install it again: ${self} package install DIR`;
    default:
      return `see \`${self} package show ${packageName}\``;
  }
}

function refused(code: 'conflict' | 'not-allowed' | 'not-found', message: string, hint: string): Started {
  return { kind: 'refused', failure: refusal(code, message, hint) };
}

/** Null for what is told as a failure. */
export function startDocument(outcome: AdmitOutcome | StartOutcome): object | null {
  switch (outcome.kind) {
    case 'created':
    case 'existing':
      return { outcome: outcome.kind, receipt: outcome.receipt };
    case 'existing-pruned':
      return { outcome: 'existing', pruned: true, runId: outcome.runId, receiptDigest: outcome.receiptDigest };
    default:
      return null;
  }
}

/** The id of a run that was started, and how to see more of it. */
export function tellStart(
  { output, self }: Context,
  session: Pick<Session, 'holder' | 'isShared'>,
  { runId, isNew }: { readonly runId: string; readonly isNew: boolean },
): void {
  output.print(runId);
  const what = isNew ? 'started' : 'the key led to this run already';
  const next =
    session.holder === null && !session.isShared
      ? `nobody holds the directory: ${self} serve --until-idle carries it on`
      : `see \`${self} runs show ${hintRunId(runId)}\``;
  output.note(`${what}; ${next}`);
}
