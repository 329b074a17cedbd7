// The tables of the second fold, written out by hand from the design: none of them is taken from src/core.

export type RunEnd = 'succeeded' | 'failed' | 'cancelled' | 'timed_out';

const words = (text: string): ReadonlySet<string> => new Set(text.split(' '));

// Every legal change of a status, as `from>to`.
export const stepArrows = words(
  'pending>ready pending>skipped pending>cancelled ' +
    'ready>ready ready>running ready>failed ready>skipped ready>cancelled ready>timed_out ready>waiting_approval ' +
    'waiting_approval>ready waiting_approval>running waiting_approval>cancelled waiting_approval>timed_out ' +
    'running>succeeded running>failed running>cancelled running>timed_out running>lost running>ready ' +
    'lost>ready lost>failed lost>cancelled',
);
export const attemptArrows = words(
  'claimed>starting claimed>cancelled claimed>timed_out claimed>lost ' +
    'starting>running starting>succeeded starting>failed starting>cancelled starting>timed_out starting>lost ' +
    'running>succeeded running>failed running>cancelled running>timed_out running>lost',
);
// What may become of a step when its attempt ends, as `attempt>step`.
export const jointEnds = words(
  'succeeded>succeeded failed>failed failed>ready cancelled>cancelled timed_out>timed_out timed_out>ready ' +
    'lost>lost lost>failed lost>ready',
);
export const finalSteps = words('succeeded failed skipped cancelled timed_out');
export const codedSteps = words('failed skipped cancelled timed_out lost');
export const openAttempts = words('claimed starting running');
export const attemptsPerStepMax = 64;
export const newsMax = 8;
export const stepsMax = 128;

export const runErrorCodes: Readonly<Record<RunEnd, string | null>> = {
  succeeded: null,
  failed: 'workflow_step_failed',
  timed_out: 'workflow_step_timed_out',
  cancelled: 'workflow_step_cancelled',
};
