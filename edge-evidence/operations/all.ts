// Every operation that evidence is collected about, in the order in which it is told.
import type { Operation } from '../operation.ts';
import { packageOperations } from './packages.ts';
import { recoveryOperations } from './recovery.ts';
import { runOperations } from './runs.ts';

export const operations: readonly Operation[] = [...packageOperations, ...runOperations, ...recoveryOperations];
