import type { Tests } from './promises.js';
import { DEATHS } from './deaths.js';
import { E2E, ENVIRONMENTS, FAILURES, STORE } from './promises.js';

const of = (...rows: string[]): Tests => rows.flatMap((row) => FAILURES[row] ?? []);

const death = (victim: string): Tests => Object.values(DEATHS[victim] ?? {}).flat();

/** By what dies, as the table of README.md has it. */
export const README_FAILURES: Record<string, Tests> = {
  'a worker, the Temporal server or an engine': [
    ...death('A worker, by `kill -9`'),
    ...death('A worker that plays a program'),
    ...death('The Temporal server'),
    ...death('An engine, or one of its replicas'),
  ],
  'the trainer or its script': death('A client or trainer'),
  'the whole machine, its disk survives': [
    ...of('the machine loses power'),
    `${STORE}/postgres-faults.test.ts › is refused commits that may be lost`,
    `${STORE}/postgres-faults.test.ts › rides out a server that is killed and comes back: nothing that was reported is lost`,
  ],
  'a full disk': death('A full disk'),
  "Temporal's database": [
    `${E2E}/recovery-server.test.ts › and whose database is deleted continues when it is started again: same rows, no finished turn generated again`,
  ],
  "an environment's server": [
    ...of(
      '`GenerationUnavailable`, `EnvironmentUnavailable`, `StoreFault`: away, busy or late (408, 429, 5xx, but no 500 of a step)',
    ),
    ...of('`EnvironmentFailed`: it raises an exception (500)'),
    `${E2E}/mixed.test.ts › waits for its Python server, outlives kills of it, of the grader and of sandboxes, and gives metrics by environment`,
    `${ENVIRONMENTS}/http.test.ts › when no answer comes in time`,
    `${ENVIRONMENTS}/module-process.test.ts › from a loop fails its turn within the deadline, while another environment and this process continue`,
    `${ENVIRONMENTS}/python-siblings.test.ts › that takes one call at a time: it fails before the worker gives up, and the others go through`,
    `${ENVIRONMENTS}/python-siblings.test.ts › a call that gave up before its turn says what it waited for, and is never run`,
  ],
  'a code interpreter': [
    `${ENVIRONMENTS}/code/state.test.ts › a lost interpreter is made again from the log: variables, files and random numbers`,
    `${ENVIRONMENTS}/code/state.test.ts › code that does not do again what it did is the fault StateLost`,
  ],
  "an agent's program": [
    ...of('`AgentFailed`: a program fails by itself'),
    ...death("An environment's service, or an agent of NeMo Gym"),
  ],
};
