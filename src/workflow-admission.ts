// Entry `qinglong-edge/workflow-admission`: the pure admission contract. It writes nothing.
export {
  type AdmissionBundle,
  type AdmissionEvidence,
  type AdmissionRequest,
  buildAdmission,
  type Receipt,
  readReceipt,
  verifyAdmission,
} from './core/admission.ts';
export { decideStart, findDrift, type GuardFacts, type StartRefusal } from './core/start-guard.ts';
