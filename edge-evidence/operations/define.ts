// How an operation is written down: what most of them have in common is left out.
import { type Ended, type Operation, type Site, unless } from '../operation.ts';

export type OperationText = Pick<Operation, 'name' | 'title' | 'prepare' | 'act'> & {
  readonly findTrouble: (site: Site, answer: Ended) => readonly string[];
} & Partial<Operation>;

/** By default the same arguments bring it to its end, to the same facts, with exit code 0. */
export function defineOperation(text: OperationText): Operation {
  return {
    again: text.act,
    endsAlike: true,
    isOrdered: true,
    ...text,
    findTrouble: (site, answer) => [
      ...unless(answer.code === 0, `it ended with ${answer.signal ?? answer.code}: ${answer.err.trim()}`),
      ...text.findTrouble(site, answer),
    ],
  };
}
