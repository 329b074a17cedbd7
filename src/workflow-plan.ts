// Entry `qinglong-edge/workflow-plan`: plans as pure data.
export { buildPlan, normalizePlan, type Plan, type PlanRefusal, type PlanStep } from './core/plan.ts';
export {
  type MaterializedRevision,
  type MaterializedTask,
  type MaterializedWorkflow,
  materialize,
} from './core/revision.ts';
