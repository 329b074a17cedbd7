// Everything that a protocol may read, by name. Owns the table of names only: what is read how stands in the reads-…
// modules.
import type { ReadName, ReadRequest, Reads } from '../../protocol/reads.ts';
import { createKnown } from './known.ts';
import type { ReadPart } from './query.ts';
import {
  admissionOfRunPart,
  admissionOfStartPart,
  admissionPart,
  keyOfPlanPart,
  keyOfStartPart,
} from './reads-admission.ts';
import {
  createPackageParts,
  installationsPart,
  lockCondemnationPart,
  packageFilesPart,
  publisherPart,
  publishersPart,
  settingsPart,
} from './reads-package.ts';
import {
  activeStepsPart,
  allSetAsidePart,
  busyOfWorkflowPart,
  candidatesPart,
  condemnedRunsPart,
  readyStepsPart,
  runCountsPart,
  runningRunsPart,
  runsPart,
  setAsidePart,
  strayRunsPart,
} from './reads-page.ts';
import {
  createPlanPart,
  createStepPart,
  eventCountPart,
  eventsPart,
  isRunKnownPart,
  retriesPart,
  runIdsPart,
  runPart,
  wholeRunPart,
} from './reads-run.ts';
import { createViewPart } from './run-view.ts';

type Parts = { readonly [N in ReadName]: (args: Reads[N]['args']) => ReadPart<Reads[N]['rows']> };

export type PartOfRequest = <N extends ReadName>(request: ReadRequest<N>) => ReadPart<Reads[N]['rows']>;

export type ViewOfRun = ReturnType<typeof createViewPart>;

/** How each read is asked and understood; what was verified once is kept, see known.ts. */
export function createReads(): { readonly partOf: PartOfRequest; readonly viewOf: ViewOfRun } {
  const known = createKnown();
  const { packagePart, startFactsPart, packagesPart, packageOfRunPart } = createPackageParts(known);
  const parts: Parts = {
    plan: createPlanPart(known),
    run: runPart,
    wholeRun: wholeRunPart,
    step: createStepPart(known),
    events: eventsPart,
    eventCount: eventCountPart,
    admission: admissionPart,
    admissionOfRun: admissionOfRunPart,
    admissionOfStart: admissionOfStartPart,
    keyOfPlan: keyOfPlanPart,
    keyOfStart: keyOfStartPart,
    runIds: runIdsPart,
    isRunKnown: isRunKnownPart,
    retriesOfRun: retriesPart,
    package: packagePart,
    packages: packagesPart,
    packageOfRun: packageOfRunPart,
    settings: settingsPart,
    startFacts: startFactsPart,
    lockCondemnation: lockCondemnationPart,
    installations: installationsPart,
    packageFiles: packageFilesPart,
    publisher: publisherPart,
    publishers: publishersPart,
    candidates: candidatesPart,
    readySteps: readyStepsPart,
    activeSteps: activeStepsPart,
    busyOfWorkflow: busyOfWorkflowPart,
    runCounts: runCountsPart,
    runningRuns: runningRunsPart,
    strayRuns: strayRunsPart,
    condemnedRuns: condemnedRunsPart,
    runs: runsPart,
    setAside: setAsidePart,
    allSetAside: allSetAsidePart,
  };
  return {
    partOf: <N extends ReadName>({ name, args }: ReadRequest<N>) =>
      (parts[name] as (args: Reads[N]['args']) => ReadPart<Reads[N]['rows']>)(args),
    viewOf: createViewPart(known),
  };
}
