// Entry `qinglong-edge/workflow-frontier`: the pure frontier contract.

export { evolve, foldEvents } from './core/evolve.ts';
export { aggregateStatus, decideFrontier, type FrontierDecision } from './core/frontier.ts';
export type { Run, RunAttempt, RunRows, StepRun } from './core/records.ts';
