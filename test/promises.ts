/** The tests that hold what is promised (test/semantics.test.ts), each as `file › name`. */

export type Tests = readonly string[];

export const E2E = 'test/e2e';
export const LONG = 'test/long';
export const ACTIVITIES = 'test/activities';
export const MODEL = 'test/model';
export const SAMPLING = 'test/sampling';
export const STORE = 'test/trajectories';
const WORKFLOWS = 'test/workflows';
export const ENGINE = 'test/generation';
export const ENVIRONMENTS = 'test/environments';
const WORKERS = 'test/workers';
const HERE = 'test/semantics.test.ts';

/** Of ARCHITECTURE.md by number, each clause as it is written there. */
export const INVARIANTS: Record<number, Record<string, Tests>> = {
  1: {
    'A generation is in the journal before its activity completes': [
      `${ACTIVITIES}/generate-turn.test.ts › is in the journal when the activity reports it, and is reported as totals`,
      `${STORE}/journal-property.test.ts › never lose a turn that one of them has reported, and leave one trajectory for all readers`,
    ],
    'a retried activity finds it and does not call the engine': [
      `${ACTIVITIES}/generate-turn.test.ts › that finds the generation in the journal calls nothing`,
      `${E2E}/recovery-worker.test.ts › generates no turn again that was journalled when the worker was killed`,
    ],
  },
  2: {
    'A streamed token is journalled at the latest 250 ms after it arrived': [
      `${SAMPLING}/chunk-recorder.test.ts › are written 250 ms after the first of them at the latest, however slowly they come`,
    ],
    'as soon as 64 wait': [`${SAMPLING}/chunk-recorder.test.ts › are written when 64 wait`],
    'the next attempt continues after it, never from the start of the turn': [
      `${ACTIVITIES}/resume-generation.test.ts › continues after its last token, with what is left of its room and another seed`,
      `${ACTIVITIES}/resume-generation.test.ts › continues as often as it is cut, and wastes nothing`,
      `${LONG}/recovery-shutdown.test.ts › samples no token again: every request continues where the journal ends`,
    ],
  },
  3: {
    'The concatenated `token_ids` of `message_log` are exactly the ids sent as the next prompt': [
      `${ACTIVITIES}/generate-turn.test.ts › gets the whole log as its prompt, and at most what max_seq_len leaves`,
      `${MODEL}/trajectory-property.test.ts › folds into one consistent trajectory, wherever its lines are torn`,
    ],
    'every generated id has its logprob': [
      `${MODEL}/trajectory-tokens.test.ts › are concatenated, ids with their logprobs`,
      `${ENGINE}/vllm-service.test.ts › hands on the recorded ids, logprobs and text of capture \${number}`,
    ],
    'the version of its weights': [
      `test/harness/policy-tests.ts › tokens have the version of the weights that sampled them, in every mode`,
      `${SAMPLING}/labels.test.ts › tokens have the version of the record while the replica is unchanged`,
      `${ENGINE}/generate-wire.test.ts › brings the recorded ids and logprobs, no text, and names the weights of each token`,
    ],
    'null if nobody can know it': [
      `${SAMPLING}/labels.test.ts › spans that the record does not confirm label nothing`,
    ],
  },
  4: {
    'A fault is never a reward': [
      `${MODEL}/metrics.test.ts › leave out what did not end validly: a fault is never a reward`,
      `${ACTIVITIES}/step-environment.test.ts › because a reward is no number is final and names the component, and no reward`,
    ],
    'no sample is dropped': [
      `${ACTIVITIES}/close-batch.test.ts › puts every rollout into one of two files, once, in input order`,
      `${WORKFLOWS}/batch.test.ts › plays all siblings of a rollout that failed, and completes`,
    ],
    'counts add up': [
      `${ACTIVITIES}/close-batch.test.ts › counts what the files hold, and the counts add up`,
    ],
  },
  5: {
    "Each rollout's row exists once": [
      `${STORE}/outputs-crash.test.ts › after \${rows} rows, with its heartbeat at \${heartbeat}: each row is written once`,
      `${ACTIVITIES}/close-refill.test.ts › anywhere is resumed where it was, and every row is written once`,
    ],
    'rows come in input order': [
      `${STORE}/outputs.test.ts › are joined in the order given, whatever order they were closed in`,
      `${E2E}/recovery-worker.test.ts › completes, with every rollout once and in input order`,
    ],
  },
  6: {
    'History carries no tokens: at most 6 events and 1.5 kB a turn activity': [
      `${LONG}/history.test.ts › a turn activity costs at most 6 events and 1.5 kB, and holds no token`,
      `${ACTIVITIES}/play-turns.test.ts › is small however much was said`,
    ],
    'no history above the 10,240 events at which the server warns': [
      `${WORKFLOWS}/event-budget.test.ts › accepts an update while it is below 10,000 events, its five for each signal included`,
      `${MODEL}/workflow-safe/slices.test.ts › the history of a batch of up to 252 slices stays under 5,000 events, at the worst event by event`,
      `${LONG}/long-rollout.test.ts › of \${TURNS} turns is played in several runs, none of them long, and its batch gets its result`,
    ],
  },
  7: {
    'Every wait has a deadline': [
      `${HERE} › have a deadline of each activity, and a heartbeat that ends a dead attempt sooner`,
      `${WORKFLOWS}/rollout.test.ts › is its deadline: it fails as a time-out`,
      `${ACTIVITIES}/open-rollout.test.ts › ends itself at rollout_timeout before a workflow can, and keeps what it has`,
      `${ENGINE}/vllm-faults.test.ts › before the first token ends with the first-token timeout and closes the connection`,
      `${ENGINE}/vllm-faults.test.ts › in the stream ends with the idle timeout, its tokens handed on`,
      `${ENVIRONMENTS}/http.test.ts › when no answer comes in time`,
    ],
    'every loop names its stop rule': [
      `${ACTIVITIES}/play-turns.test.ts › is where the turn limit is`,
      `${ACTIVITIES}/generate-turn.test.ts › by breaking the protocol is retried once per turn, by any worker`,
      `${ACTIVITIES}/session.test.ts › fails at the third loss; started again as a batch, it has as many lives again`,
      `${WORKFLOWS}/limits-while-starting.test.ts › is not tried again where nothing has changed since`,
      `${WORKFLOWS}/start-in-turn.test.ts › children that play on for a run that was reset are cancelled at the second refusal, all at once, and then start`,
    ],
    'once a worker runs, an engine that has all its weights is resumed, even if the process that paused it is dead':
      [
        `${WORKERS}/policies.test.ts › starts the workflow of a replica that has none, as often as it is gone`,
        `${WORKERS}/policies.test.ts › tells a workflow that runs of a pause that is over, once`,
        `${ACTIVITIES}/bring-replica.test.ts › ends a pause that was left behind before it begins its own`,
        `${ACTIVITIES}/bring-replica.test.ts › an engine is resumed at the limit of its pause, once, and updated when the store is back`,
      ],
  },
  8: {
    'Workflow code is deterministic': [
      `${LONG}/history.test.ts › fresh histories of every workflow type replay`,
    ],
    'imports only `@temporalio/workflow`, `model/workflow-safe` (which uses `ms`), `platform/plain.ts`, `platform/json/kept.ts`, `platform/json/depth.ts` and types':
      [
        `${HERE} › runs the SDK, \`ms\`, what is workflow-safe, plain text and itself; all else is types`,
      ],
    'recorded histories replay': [
      `${WORKFLOWS}/recorded-histories.test.ts › recorded histories of every workflow type replay`,
    ],
  },
  9: {
    'No secret in history, journal, log or result': [
      `${E2E}/secrets.test.ts › is in no history, journal, row or log line`,
      `${ACTIVITIES}/attempt.test.ts › and an unknown error loses what is secret in its message, its stack and its causes`,
      `${ENGINE}/vllm-secrets.test.ts › within the stream is quoted without it, and not at any length`,
    ],
    'no path or id from a request escapes `inputs_dir`': [
      `${ACTIVITIES}/read-samples.test.ts › \${name} leads out of inputs_dir and is refused`,
      `${ACTIVITIES}/read-samples.test.ts › through a symbolic link out of inputs_dir is refused`,
    ],
    'the store root': [
      `${STORE}/places.test.ts › a journal of \${JSON.stringify(place)}`,
      `${STORE}/places.test.ts › a batch called \${JSON.stringify(id)}`,
    ],
  },
};

/** By what fails, as the table there has it. */
export const FAILURES: Record<string, Tests> = {
  '`GenerationUnavailable`, `EnvironmentUnavailable`, `StoreFault`: away, busy or late (408, 429, 5xx, but no 500 of a step)':
    [
      `${ENVIRONMENTS}/gym-agent/head-server.test.ts › stays in use where the next answer is \${act}, and its age is known`,
      `${ACTIVITIES}/step-environment.test.ts › because the environment is away is retried with the same key`,
      `${ENVIRONMENTS}/http.test.ts › \${status} is \${type} with the environment's type and message`,
      `${ACTIVITIES}/run-agent.test.ts › is waited for without a life, and without using up an attempt`,
      `${ENVIRONMENTS}/gym-agent/agents.test.ts › is away when it answers \${status}, or a proxy before it does`,
    ],
  '`GenerationRejected`: the engine refuses': [
    `${ACTIVITIES}/generate-turn.test.ts › because it was rejected is not retried`,
    `${WORKFLOWS}/batch.test.ts › plays all siblings of a rollout that failed, and completes`,
    `${ACTIVITIES}/generate-turn.test.ts › because its engine answers \${status}, which planning did not see, is retried, visibly`,
    `${ENGINE}/replicas.test.ts › with \${status} is set aside, and its rollouts continue on the other`,
  ],
  '`ProtocolError`: a reply without logprobs, with another prompt, …': [
    `${ACTIVITIES}/generate-turn.test.ts › by breaking the protocol is retried once per turn, by any worker`,
  ],
  '`EnvironmentFailed`: it raises an exception (500)': [
    `${ACTIVITIES}/step-environment.test.ts › by an exception is retried as often as the request says, with the exception’s text`,
  ],
  '`EnvironmentRejected`, `PromptTooLong`; `StateLost`, `ReplayDiffers`: a replay gave something else':
    [
      `${ACTIVITIES}/step-environment.test.ts › with a rejection is final, with its own text`,
      `${ENVIRONMENTS}/http.test.ts › with a body of another shape shows the body, cut`,
      `${ENVIRONMENTS}/math/grader-pool.test.ts › is unavailable where it is not installed and where its program is not there`,
      `${ENVIRONMENTS}/math/grader-pool.test.ts › makes a fault of a process that does this twice: \${answer}`,
      `${ENVIRONMENTS}/gym-agent/agents.test.ts › that gives \${what} is \${type} of class \${failureClass}`,
      `${ACTIVITIES}/fork.test.ts › is ReplayDiffers where the environment says something else, or ends`,
      `${ENVIRONMENTS}/code/state.test.ts › code that does not do again what it did is the fault StateLost`,
      `${ACTIVITIES}/open-rollout.test.ts › because its prompt fills max_seq_len, or exceeds max_prompt_tokens, is PromptTooLong, for good`,
    ],
  '`EnvironmentStateLost`: a session is lost': [
    `${ACTIVITIES}/session.test.ts › starts over in a new one, once the old one is ended`,
    `${WORKFLOWS}/rollout.test.ts › whose \${lost} ended as \${type} is opened again and continues from there`,
  ],
  '`TimedOut`: `rollout_timeout` or `limits.run` passes': [
    `${ACTIVITIES}/run-program.test.ts › that is longer than limits.run is ended at its service, and the rollout has no reward`,
    `${ACTIVITIES}/finish-rollout.test.ts › an environment that never answered`,
  ],
  '`AgentFailed`: a program fails by itself': [
    `${LONG}/agent.test.ts › that fail begin again, as often as the request allows`,
  ],
  '`AgentFailed`: an agent of NeMo Gym, or its judge, says so': [
    `${ACTIVITIES}/run-agent.test.ts › with \${said} is \${type}, journalled whole, and played again by a batch that continues`,
    `${ACTIVITIES}/run-agent.test.ts › for good is not played again`,
  ],
  '`JournalLost`: the journal lacks what its workflow saw': [
    `${ACTIVITIES}/generate-turn.test.ts › whose journal has lost its start, or its turn, says so at once: its workflow opens it again`,
    `${ACTIVITIES}/close-batch.test.ts › names a journal that has lost the end of a workflow that ended, and fails the others as their workflows did`,
    `${WORKFLOWS}/rollout.test.ts › whose journal is lost again and again fails at the third loss`,
    `${WORKFLOWS}/rollout.test.ts › whose \${lost} ended as \${type} is opened again and continues from there`,
  ],
  '`PolicyUpdateFailed`: a replica misses an update of weights': [
    `test/harness/policy-tests.ts › a replica that is away misses an update, and gets it when it is back`,
    `${ACTIVITIES}/publish.test.ts › a replica that does not answer is away, and is not waited for`,
    `test/harness/policy-tests.ts › weights that are not there leave replicas unknown, which get the version back by themselves`,
    `${ACTIVITIES}/bring-replica.test.ts › is unknown where its probe differs: a load that did nothing ends here`,
    `${WORKFLOWS}/policy.test.ts › is given the version of the record again by itself`,
  ],
  '`InvalidBatchRequest`: request or sample is wrong': [
    `${ACTIVITIES}/plan-batch.test.ts › because it is \${what} gets every problem in one final answer`,
    `${ACTIVITIES}/read-samples.test.ts › because of \${what} are refused by row`,
    `${WORKFLOWS}/batch.test.ts › that is refused at planning fails, and nothing is closed`,
  ],
  'input, update (`UpdateRefused`) or signal that cannot be decoded': [
    `${WORKFLOWS}/signal-checks.test.ts › is a value that is passed on as it came, and that every check refuses: \${what}`,
    `${E2E}/bad-input.test.ts › is refused as the input of a workflow of any type where nobody can read it: \${what}`,
    `${E2E}/bad-input.test.ts › is ignored as a signal and refused as an update while batch and rollout go on, and stop is obeyed`,
    `${E2E}/bad-input.test.ts › is ignored or refused by streams, their groups and policies`,
  ],
  'the engine refuses a prompt that fills its context (400, 413)': [
    `${ENGINE}/context-limit.test.ts › by \${by}, for \${prompt} and \${max_tokens} tokens, becomes: \${what}`,
  ],
  'the machine loses power': [
    `${ACTIVITIES}/play-turns.test.ts › costs the turns that no activity had reported, and none before them`,
    `${STORE}/batch-files.test.ts › stays open through a power cut: the directory is synced behind the removal`,
    `${STORE}/outputs-crash.test.ts › because a power cut shortened \${kind}: the next one starts over`,
  ],
  'workers of a task queue have different stores': [
    `${LONG}/several-hosts.test.ts › with another store than a worker of its task queue ends, and check names that worker`,
    `${WORKERS}/one-store.test.ts › with another store are named, on whichever of its task queues they are`,
  ],
  'a bug of this program': [
    `${ACTIVITIES}/bug.test.ts › is told at once, and ends its activity when it comes three times in the same way`,
  ],
  'a workflow task fails again and again': [
    'test/client/failing-task.test.ts › is said with its reason and the next step once it has failed several times, and not before',
    'test/workers/stuck.test.ts › is said in the log, and terminated after an hour; others, and one started by hand, are left alone',
  ],
  'a workflow task takes longer than 60 s': [
    'test/workers/workflow-thread.test.ts › is played, and ends no worker, after more than the five seconds that the SDK allows',
    'test/workers/workflow-thread.test.ts › has that limit in the worker that plays workflows',
  ],
  'a workflow is reset into its middle': [
    `${WORKFLOWS}/reset.test.ts › \${workflow.type} continues as a new run with its input alone`,
    `${LONG}/resets.test.ts › a batch that has ended has the same rows, though its rollouts had ended after the task`,
    `${LONG}/resets.test.ts › a stream and its groups have the same steps, and go on with the next`,
  ],
};

/** Ways in which wrong data would get into training, or a fault would pass for a reward, as they are kept out. */
export const POISONS: Record<string, Tests> = {
  'a full context is known by token counts alone, an adapter has the limit of its parent': [
    `${ENGINE}/context-limit.test.ts › by \${by}, for \${prompt} and \${max_tokens} tokens, becomes: \${what}`,
    `${ENGINE}/context-limit.test.ts › for an adapter is measured by its parent’s limit (capture 227)`,
  ],
  'raw logprobs under a temperature, filters or penalties are refused, or their row says `raw`': [
    `${ENGINE}/logprobs-probe.test.ts › of an engine \${what} is \${mode}`,
    `${ACTIVITIES}/plan-batch.test.ts › of a raw engine are refused under \${fields}, with what to do`,
    `${ACTIVITIES}/logprobs-mode.test.ts › a replica that turns out to be raw behind the planning is refused before anything is sampled`,
  ],
  'the row of an engine that does not show its logprobs mode says `unknown`': [
    `${ACTIVITIES}/plan-batch.test.ts › that an engine does not show are taken, and said in the log`,
    `${ACTIVITIES}/logprobs-mode.test.ts › says that its logprobs are \${mode} where the replica showed that`,
  ],
  'a batch is refused whose replica serves another version than it expects': [
    `${ACTIVITIES}/plan-batch.test.ts › is that of every replica, or the batch is refused: each other one with its label`,
  ],
  'tokens of a replica that does not report its version have none': [
    `${ACTIVITIES}/policy-version.test.ts › where the replica does not say: never the label that the batch expects`,
  ],
  'tokens have the version that the engine reports, also where the batch expects none': [
    `${ACTIVITIES}/policy-version.test.ts › and one that the replica says is recorded also where the batch expects none`,
  ],
  'an agent whose judge is down has no row': [
    `${MODEL}/gym-lives.test.ts › is how the run failed, and no valid end`,
    `${MODEL}/gym-lives.test.ts › is a result of its collection`,
  ],
  'an answer with `mask_sample` has a row that does not train': [
    `${MODEL}/masked-answer.test.ts › is a row that is not trained on, whose reward counts`,
  ],
  'a rollout that its environment truncates is `truncated`': [
    `python/tests/test_server.py › test_what_an_environment_truncated_is_passed_on`,
    `${ENVIRONMENTS}/user-module.test.ts › says that a limit of its own ended the rollout`,
  ],
  'metrics count faults and attempts of all rollouts': [
    `${MODEL}/metrics.test.ts › count the faults and attempts of rollouts that failed`,
    `${MODEL}/metrics.test.ts › of no valid rollout are what went wrong in all that were begun`,
  ],
  'under `min_k` a group has its first k valid members': [
    `${ACTIVITIES}/close-min-k.test.ts › gives each group its first k valid rollouts; those behind them are surplus`,
    `${WORKFLOWS}/min-k.test.ts › a group that has k valid rollouts stops its own, and no other`,
  ],
  'a sample whose environment raises an exception each time has no row': [
    `${ACTIVITIES}/step-environment.test.ts › by an exception is retried as often as the request says, with the exception’s text`,
  ],
  'an environment that is busy is asked again': [
    `${ENVIRONMENTS}/http.test.ts › \${status} is \${type} with the environment's type and message`,
    `${ACTIVITIES}/step-environment.test.ts › because the environment is away is retried with the same key`,
  ],
  'turns with long contexts wait for memory': [
    `${ACTIVITIES}/long-contexts.test.ts › wait until the folds of those before them leave room`,
    `${STORE}/long-journals.test.ts › that are folded at the same time hold the event loop up by a slice at a time`,
  ],
  'a replica that answers 400, 401 or 422 to `/weight_info` has no version, and fails no rollout': [
    `${ENGINE}/vllm-control.test.ts › have none where it answers \${status}: that is no fault, and is asked again after half a minute`,
  ],
  'a module that loops forever fails its own turn alone': [
    `${ENVIRONMENTS}/module-process.test.ts › from a loop fails its turn within the deadline, while another environment and this process continue`,
  ],
  'a rollout whose end could not be written has the rewards of its turns': [
    `${ACTIVITIES}/close-batch.test.ts › takes turns that have reached an end for it, though the end was never written`,
  ],
  'the arrays of the example trainer are those of the rows': [
    `${LONG}/trainer.test.ts › has the arrays of its rows`,
  ],
  'prompts and overrides of NeMo Gym become what upstream makes of them': [
    `gym/test/python/format.test.ts › fill every recorded template as Python 3.11 fills it`,
    `gym/test/create-params.test.ts › overrides of responses_create_params are in rows as upstream's commands put them there`,
  ],
  'ids and text end with the token that completes a stop string': [
    `${ACTIVITIES}/stop-strings.test.ts › whatever an engine samples past a stop string, and wherever it is cut, the turn ends as if sampled token by token`,
    `${ACTIVITIES}/stop-strings.test.ts › is refused where its ids do not say the stop string that ended it, and none of them stays`,
  ],
  'an event that a proxy repeats, loses or delays leaves no token in a row': [
    `${ENGINE}/meddled-streams.test.ts › is noticed at once: what is handed on is where it was sampled`,
    `${ACTIVITIES}/meddled-streams.test.ts › whose proxy \${how} an event\${cut === null ? '' : ', then cuts'} has the tokens and logprobs that the engine sampled`,
  ],
  '`overlong` decides about truncated rollouts': [
    `${MODEL}/training-fields.test.ts › is kept with a loss multiplier of 0, where the request masks it`,
    `${MODEL}/training-fields.test.ts › is a failure, where the request drops it, though its environment graded it`,
  ],
  '`train_mask` has what the policy sampled, neither prompt nor observations': [
    `${MODEL}/train-mask.test.ts › are those that the policy sampled, neither prompt nor observations`,
  ],
  '`prompt_tokens` says where the prompt ends': [
    `${MODEL}/training-fields.test.ts › says where the prompt ends, and of each whole turn its reward and how it was finished`,
  ],
  'a turn that cannot be continued starts over, and its row says so': [
    `${ACTIVITIES}/resume-sampling.test.ts › with \${what} starts over, and its row says so`,
  ],
};
