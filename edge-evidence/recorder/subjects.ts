// Which operations a part of the evidence records, in which modes, and how a thread is told about one of them.
import { join } from 'node:path';
import { EvidenceError, type Mode } from '../operation.ts';
import { operations } from '../operations/all.ts';
import type { Subject } from './record.ts';

/** A subject as a message: operations have functions, which no message carries. */
export type Task = Omit<Subject, 'operation'> & { readonly operationName: string; readonly seed: number };

// What differs most: a directory that is made, files that come and go, one commit, many with commands between them.
const quickOperations = ['create', 'package-update', 'admission', 'kept-output'];

export type TaskOptions = {
  readonly bundle: string;
  readonly scratch: string;
  readonly shim: string;
  readonly modes: readonly Mode[];
  readonly isQuick: boolean;
  readonly seed: number;
};

/** One task for each operation in each mode. */
export function listTasks({ modes, isQuick, scratch, ...common }: TaskOptions): readonly Task[] {
  const names = isQuick ? quickOperations : operations.map(({ name }) => name);
  return modes.flatMap((mode) =>
    names.map((operationName) => ({
      ...common,
      mode,
      operationName,
      scratch: join(scratch, `${operationName}-${mode}`),
    })),
  );
}

export function subjectOf({ operationName, ...rest }: Task): Subject {
  const operation = operations.find(({ name }) => name === operationName);
  if (operation === undefined) {
    throw new EvidenceError(`there is no operation ${operationName}`);
  }
  return { ...rest, operation };
}
