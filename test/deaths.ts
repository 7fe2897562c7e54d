import type { Tests } from './promises.js';
import { ACTIVITIES, E2E, ENGINE, ENVIRONMENTS, LONG, MODEL, SAMPLING, STORE } from './promises.js';

/** The tests of what docs/failures.md says under "When a process dies": by victim, sentence by sentence. */

const NOT_KEPT = `${ACTIVITIES}/cancellation.test.ts › is stopped: an engine does not generate tokens that are not kept`;
const SAME_KEY = `${ACTIVITIES}/step-environment.test.ts › shows the environment role and content only, its state, and a key that every attempt shares`;
const KILLED_SERVER = `${E2E}/recovery-server.test.ts › three times continues from its database: same rows, no finished turn generated again`;
const LOST_SESSION = `${ACTIVITIES}/session.test.ts › fails at the third loss; started again as a batch, it has as many lives again`;

export const DEATHS: Record<string, Record<string, Tests>> = {
  'A worker, by `kill -9`': {
    'What was appended stays; a torn last line costs only itself.': [
      `${STORE}/journal-file.test.ts › begins with a newline, so that a torn tail costs only itself`,
      `${MODEL}/trajectory-property.test.ts › folds into one consistent trajectory, wherever its lines are torn`,
    ],
    'Streams break off, and at most their last 250 ms of tokens, and never more than 64, are lost.':
      [
        `${SAMPLING}/chunk-recorder.test.ts › are written 250 ms after the first of them at the latest, however slowly they come`,
        `${SAMPLING}/chunk-recorder.test.ts › are written when 64 wait`,
      ],
    'Other workers see it within 10 s, on the same machine mostly within 2 s.': [
      'test/workers/deaths/keep.test.ts › are run again where it died before its first report',
      'test/workers/deaths/has-ended.test.ts › has ended once its process has, and not before',
      'test/workers/deaths/watch.test.ts › is dead after 8 s without a report, and not while its reports change, whatever its clock says',
      'test/workers/deaths/watch.test.ts › is dead at once where its process is seen to have ended',
    ],
    'Within a second of that, another worker reports its activities as failed, so Temporal starts their next attempts.':
      [
        'test/workers/deaths/give-up.test.ts › run again within a second, with what their heartbeats kept; those of others stay',
        `${LONG}/recovery-environment.test.ts › whose worker is killed twice asks again only for steps that were not journalled: same rows`,
        `${LONG}/recovery-frozen.test.ts › completes long before its heartbeat timeout with the rows of an undisturbed run, and ends no worker`,
      ],
    'If no other worker sees the death, the Temporal server notices it after `heartbeat_timeout`.':
      [
        'test/semantics.test.ts › have a deadline of each activity, and a heartbeat that ends a dead attempt sooner',
        `${E2E}/recovery-worker.test.ts › completes, with every rollout once and in input order`,
      ],
    'Any worker replays the workflow; the next attempt reads the journal, and asks for nothing that is there.':
      [
        `${LONG}/history.test.ts › fresh histories of every workflow type replay`,
        `${STORE}/journal.test.ts › inherits the journal, and what it appends is folded in`,
        `${ACTIVITIES}/open-rollout.test.ts › continues from the journal where an attempt died, and samples nothing again`,
        `${ACTIVITIES}/generate-turn.test.ts › that finds the generation in the journal calls nothing`,
        `${ACTIVITIES}/step-environment.test.ts › that is retried once it is in the journal calls nothing`,
      ],
    'A turn continues after its last token, on any replica.': [
      `${ACTIVITIES}/resume-generation.test.ts › continues after its last token, with what is left of its room and another seed`,
      `${ACTIVITIES}/generation-slots.test.ts › a turn whose replica fails continues at another one, and the journal names both`,
    ],
    'A step without an observation is sent again under the same key; an environment with sessions is told so.':
      [
        `${LONG}/recovery-environment.test.ts › whose worker is killed twice asks again only for steps that were not journalled: same rows`,
        SAME_KEY,
        `${ACTIVITIES}/session.test.ts › tells where an earlier attempt sent it and died, and not where it was refused`,
      ],
    'The row differs in `attempts`, `segments`, `timing` and what is sampled anew.': [
      `${E2E}/recovery-worker.test.ts › has the rows and the metrics of an undisturbed run`,
    ],
    'Closing continues at its last heartbeat, and each row is written once.': [
      `${STORE}/outputs-crash.test.ts › after \${rows} rows, with its heartbeat at \${heartbeat}: each row is written once`,
      `${LONG}/recovery-closing.test.ts › in the midst of writing rows has each row once, as it was before, and nothing half-written`,
    ],
  },
  'A worker that plays a program': {
    "A run of NeMo Gym that is cut by its worker's death, or by a full disk, is sent again, which costs no attempt.":
      [
        `${ACTIVITIES}/run-agent.test.ts › that its own end cuts is none of the row's attempts, however often`,
        `${ACTIVITIES}/run-agent.test.ts › leaves the row its attempt`,
        `${LONG}/gym-agent.test.ts › has journals whose lives name each run, sent once unless its life was lost, and with its attempt`,
      ],
    'A program at a service runs on, and gets the answers that it missed.': [
      `${LONG}/agent.test.ts › live on while their worker is killed, and get what they missed`,
      'test/gateway/attached.test.ts › continues what the one before has journalled, with the same bytes',
    ],
    "A program with the dead worker's address is ended and begins anew, which costs no attempt.": [
      `${ACTIVITIES}/run-program.test.ts › that was told another address is ended, and begins again at the new one`,
    ],
    'A program that the worker started dies with it, all processes and the folder too, and begins anew.':
      [
        'test/sandbox/programs/ends.test.ts › a worker that is killed leaves neither process nor folder',
        `${E2E}/agent-command.test.ts › die with their worker, and begin again without a cost`,
      ],
  },
  'A worker, by SIGTERM': {
    'Streams are aborted, and all tokens that had arrived are journalled.': [
      `${ACTIVITIES}/cancellation.test.ts › in the middle of a stream stops the engine and leaves its tokens in the journal`,
      `${LONG}/recovery-shutdown.test.ts › samples no token again: every request continues where the journal ends`,
      `${LONG}/recovery-shutdown.test.ts › completes with the rows of an undisturbed run`,
    ],
    'Attempts fail at once, and the process ends within 5 s.': [
      `${LONG}/recovery-shutdown.test.ts › is left without a wait for the ends of its turns`,
    ],
  },
  'A worker that was frozen and wakes up': {
    'Another attempt has the journal: readers ignore what the woken worker appends.': [
      `${MODEL}/trajectory-property.test.ts › ignores a writer that has been replaced: without its later lines it folds the same`,
      `${MODEL}/trajectory-writers.test.ts › a zombie's \${kind} changes nothing`,
      `${LONG}/recovery-frozen.test.ts › has lines of the woken one in its journals, which count for nothing`,
      `${LONG}/recovery-frozen.test.ts › completes long before its heartbeat timeout with the rows of an undisturbed run, and ends no worker`,
      `${STORE}/journal-property.test.ts › never lose a turn that one of them has reported, and leave one trajectory for all readers`,
    ],
    'It starts no run of NeMo Gym, and steps no session.': [
      `${ACTIVITIES}/session.test.ts › that was taken over meanwhile is not sent`,
    ],
    'Its streams to programs end with an error, and clients ask the worker that plays on.': [
      'test/gateway/waits.test.ts › ends the session, and the call is asked for again',
      'test/gateway/waits.test.ts › in the midst of a stream: nothing more of it is said',
      'test/gateway/answerers.test.ts › is led to no frozen worker, and to no program that has got its port',
      'test/gateway/answerer-facts.test.ts › never name an attempt that was frozen before it could say so, behind its successor',
      `${LONG}/agent-frozen.test.ts › were answered by other workers than the ones they asked, and by another one after the freeze`,
    ],
    'Its next append or sync fails as `StoreFault`, and it reports nothing.': [
      `${STORE}/journal.test.ts › makes the sync of the first throw the same`,
      `${ACTIVITIES}/play-turns.test.ts › but still runs cannot report: its successor has the journal`,
    ],
    'Rows that it still writes go to a file of its own.': [
      `${STORE}/outputs-crash.test.ts › cannot spoil what its successor closed`,
    ],
  },
  'The Temporal server': {
    'Activities play on; if the server gave one up, the next attempt finds its turns in the journal.':
      [
        KILLED_SERVER,
        `${ACTIVITIES}/play-turns.test.ts › but still runs cannot report: its successor has the journal`,
      ],
    'Workflows go on from the database, and workers connect again.': [KILLED_SERVER],
    'Commands and clients say that the server cannot be reached.': [
      'test/client/server.test.ts › says at once that the server cannot be reached',
    ],
    'If its database is lost, the same start continues from the store.': [
      `${E2E}/recovery-server.test.ts › and whose database is deleted continues when it is started again: same rows, no finished turn generated again`,
    ],
  },
  'An engine, or one of its replicas': {
    'Streams end as `GenerationUnavailable`, and what had arrived is journalled.': [
      `${ENGINE}/vllm-faults.test.ts › and is \${how} at any byte: GenerationUnavailable, the whole events before it handed on`,
      `${ACTIVITIES}/generate-turn.test.ts › in the middle keeps what had streamed in`,
    ],
    'The replica is set aside and probed; its rollouts go to others, and rows name both.': [
      `${ENGINE}/replicas.test.ts › is set aside: its rollouts go elsewhere, and come back when a probe is answered`,
      `${E2E}/replicas.test.ts › completes on the other one when one is killed in its midst, and rows name both`,
    ],
    'Attempts follow after 1, 2, 4, 8 s, then every 15 s, until `rollout_timeout`, and say what they wait for.':
      [
        `${ACTIVITIES}/generate-turn.test.ts › because the service is away is retried, and counted in the journal`,
        `${LONG}/recovery-engine.test.ts › longer than a rollout that was started by hand may take fails it as TimedOut`,
        `${LONG}/recovery-engine.test.ts › from the start waits for it by name, and then completes`,
        `${LONG}/waiting.test.ts › shows for what, and how far the others are; a timeout names call, tries, time and last answer`,
      ],
    'If another process or other weights answer at a URL, their tokens are dropped, and the turn continues elsewhere (`PolicyVersionMismatch`).':
      [
        `test/harness/policy-tests.ts › a process that replaces a replica serves only once it has the weights`,
        `${SAMPLING}/labels.test.ts › another process behind the URL is distrusted, and none of its tokens is labelled`,
        'test/workers/policies.test.ts › tells a workflow that runs of an unknown replica that nobody restores for minutes, once',
        `${SAMPLING}/foreign-weights.test.ts › a stream \${name} keeps nothing that other weights may have sampled, and what came before it stays`,
      ],
    "A program's call is tried until its time limit has passed; then another life follows.": [
      'test/gateway/waits.test.ts › is 503, and goes on when it is asked for again',
      `${ACTIVITIES}/run-program.test.ts › gives a life no verdict, whatever its exit, and costs none of its attempts`,
      `${ACTIVITIES}/run-program.test.ts › that does not end is what the rollout waits for, since its first life, and each pause is longer`,
    ],
  },
  "An environment's service, or an agent of NeMo Gym": {
    'The generation stays, and the step is retried until `rollout_timeout`.': [
      `${ACTIVITIES}/play-turns.test.ts › because its environment is away keeps the turns before, and the generation`,
      `${ACTIVITIES}/step-environment.test.ts › because the environment is away is retried with the same key`,
      SAME_KEY,
    ],
    'A rollout whose session is lost starts over in another one, twice at most.': [
      `${ACTIVITIES}/session.test.ts › starts over in a new one, once the old one is ended`,
      LOST_SESSION,
      `test/workflows/rollout.test.ts › whose \${lost} ended as \${type} is opened again and continues from there`,
    ],
    "If NeMo Gym's agent dies during a run, that costs an attempt of its row; a run that was refused costs none.":
      [
        `${ACTIVITIES}/run-agent.test.ts › is asked again without using up an attempt, when it says`,
        `${ACTIVITIES}/run-agent.test.ts › that its own end cuts is none of the row's attempts, however often`,
        `${ACTIVITIES}/run-agent.test.ts › is tried again while the row has attempts left, and the last fault is final`,
        `${LONG}/gym-agent.test.ts › whose worker and whose server are killed has every row once, with what became of it`,
        `${ACTIVITIES}/run-agent.test.ts › is waited for without a life, and without using up an attempt`,
      ],
    'A program that dies with its service begins anew, which costs no attempt.': [
      `${ACTIVITIES}/run-program.test.ts › that its service has lost is followed by another one, which costs none of its attempts`,
    ],
    'The reward is the sum of the journalled answers; a turn without one adds nothing.': [
      `${ACTIVITIES}/step-environment.test.ts › that is retried once it is in the journal calls nothing`,
      `${ACTIVITIES}/step-environment.test.ts › leaves no observation behind`,
      `${ENVIRONMENTS}/http.test.ts › when no answer comes in time`,
    ],
  },
  'A client or trainer': {
    'Batches and streams play on without it.': [
      `${LONG}/trainer.test.ts › is run as its README says, is killed, and started again has all rollouts`,
    ],
    'The same id joins a batch that runs, and returns the rows of one that has ended.': [
      `${LONG}/trainer.test.ts › started again once its batch has ended has the same rows`,
    ],
    'A step of a stream has the same rows whenever it is asked for; a new request replaces that of the dead trainer.':
      [
        `${E2E}/stream.test.ts › goes back three steps, bit for bit, and continues where it was`,
        `${E2E}/stream.test.ts › lets a request with a higher version replace one that waits, as that of a dead trainer`,
      ],
    'An update of weights is completed, and no engine stays paused.': [
      `${LONG}/policy-chaos.test.ts › phase and victim: \${nameOf(cell)}`,
      `${ACTIVITIES}/bring-replica.test.ts › begins anew within the same pause, and loads whole again`,
      'test/workers/policies.test.ts › tells a workflow that runs of a pause that is over, once',
    ],
  },
  PostgreSQL: {
    'Appends wait for it, and fail as `StoreFault` when their patience ends.': [
      `${STORE}/postgres-faults.test.ts › rides out a server that is killed and comes back: nothing that was reported is lost`,
      `${STORE}/postgres-faults.test.ts › that is away for longer than the patience is a retryable StoreFault that names the rollout`,
    ],
    'A commit whose answer was lost is sent again unchanged, and stored once.': [
      `${STORE}/postgres-faults.test.ts › sends a commit again whose answer was lost, and it is written once`,
    ],
    'Streams are stopped: no token is sampled that cannot be kept.': [NOT_KEPT],
    'Attempts continue on a standby that takes over, with the same rows as in files.': [
      `${LONG}/failover-postgres.test.ts › that dies while commits are open continues in its standby, without another worker`,
      `${LONG}/recovery-postgres.test.ts › has the rows and the metrics of an undisturbed run with its journals in files`,
    ],
  },
  'A full disk': {
    'A line that found no room counts as unwritten, and the next attempt continues without it.': [
      `${STORE}/store-faults.test.ts › in the middle of a chunk costs that chunk, which was not taken for written`,
      `${STORE}/store-faults.test.ts › heals: the next attempt continues`,
    ],
    'Attempts fail as `StoreFault`, their streams are stopped, and they wait for the store.': [
      NOT_KEPT,
      `${STORE}/store-faults.test.ts › is a retryable StoreFault that names the batch or the rollout, whatever is tried`,
      `${ACTIVITIES}/look-at-rollouts.test.ts › tells of a store that cannot be written, which no journal can say, whatever the journals say`,
      `${ACTIVITIES}/absent-store.test.ts › a store that fails while a batch is planned is waited for, and its operation and error are reported`,
    ],
    'Batches ask Temporal what their quiet rollouts wait for.': [
      `${ACTIVITIES}/look-at-rollouts.test.ts › tells of a full disk although a rollout that has not begun only waits for a slot`,
      `${ACTIVITIES}/look-at-rollouts.test.ts › tells of a full disk on which the rows of a slice are closed`,
    ],
    'Batches are closed, with the rows of all turns, once there is room.': [
      `${ACTIVITIES}/close-on-bad-disk.test.ts › on a disk that was full`,
      `${ACTIVITIES}/close-batch.test.ts › takes turns that have reached an end for it, though the end was never written`,
    ],
  },
};
