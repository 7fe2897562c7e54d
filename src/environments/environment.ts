import type { Server } from 'node:net';
import type { AgentLimits } from '../model/calls/limits.js';
import type { PlayedCall } from '../model/agent/penalties.js';
import type { Fault } from '../model/faults.js';
import type { Entry, LineOf } from '../model/journal.js';
import type { Content } from '../model/content.js';
import type { ForeignObject } from '../model/foreign-object.js';
import type { Problem } from '../model/problems.js';
import type { Share } from '../platform/waits/allowance.js';

/**
 * An environment answers one turn of one rollout. Upstream's interface (NeMo RL `environments/interfaces.py`) is for many
 * samples at once: its lists exist only at the edges that speak it (`step-answer.ts`), always with one entry. A new kind is a
 * folder here with a `kind.ts`, which `registry.ts` lists.
 */

/** How long a caller of `end` waits: less than an attempt at finishing a rollout has. */
export const END_TIMEOUT_MS = 30_000;
/** The longest that metrics of an absent or hanging environment delay the closing of a batch. */
export const METRICS_TIMEOUT_MS = 60_000;

export interface EnvironmentMessage {
  role: string;
  content: string;
}

/** What the policy reads next: a text, or parts with text and images. */
export interface Observation {
  role: string;
  content: Content;
}

/** `metadata` *is* the environment's state; it is journalled at every turn. */
export type Metadata = Record<string, unknown>;

/** `M`: metadata is plain, or what JavaScript would change of it is its text. */
export interface Turn<M = Metadata> {
  /** Only `role` and `content` of each message; the last one is the policy's. */
  message_log: EnvironmentMessage[];
  /** The sample's `extra_env_info`, or what the last turn returned instead. */
  metadata: M;
}

export interface TurnAnswer<M = Metadata> {
  /** null: no message, allowed if the rollout ends with it. */
  observation: Observation | null;
  /** A number, or named components, which are added up. */
  reward: number | Record<string, number>;
  terminated: boolean;
  /** Ended by a limit of the environment; absent: it was not. */
  truncated?: boolean;
  /** Absent or null keeps the previous metadata. */
  metadata?: M | null;
  next_stop_strings?: string[] | null;
  answer?: string | null;
}

export interface StepContext extends Named {
  signal: AbortSignal;
  /** This step was sent before to an environment with sessions, with an unknown outcome. */
  was_asked?: boolean;
  /** The share from which a large answer takes its bytes; it is given back once the answer is journalled. */
  share?: Share;
  /**
   * `semantics: standard`: how many messages of the log are the prompt's. What the policy said behind them is graded, and
   * nothing else. Absent: graders keep upstream's rules, as under `nemo-rl-*`.
   */
  prompt_length?: number;
}

/** The names of a call, the same for each attempt at it. */
export interface Named {
  /** `<rollout_id>/<turn>`; of a session `<rollout_id>/begin-<life>` and `<rollout_id>/end-<life>`. */
  idempotency_key: string;
  /** The id of the caller's store. Other deployments may use the same keys. Absent: nobody shares its environments. */
  deployment?: string | undefined;
  /** The play of a step: another one where a batch that was restarted plays the same turn again. */
  play?: string | undefined;
}

export interface SessionContext extends Named {
  signal: AbortSignal;
}

export interface Beginning<M = Metadata> {
  /** Appended to the sample's prompt, before it is rendered. */
  messages: EnvironmentMessage[];
  /** The first state, instead of the sample's. `SESSION_KEY` holds what identifies the session. */
  metadata: M;
}

/** What `globalPostProcessAndMetrics` sees of a finished rollout. */
export interface FinishedRollout<M = Metadata> {
  message_log: EnvironmentMessage[];
  total_reward: number;
  rewards: Record<string, number>;
  extra_env_info: M;
}

/** One by one, as their rows are read: a batch's logs need not fit into memory. */
export type FinishedRollouts<M = Metadata> =
  Iterable<FinishedRollout<M>> | AsyncIterable<FinishedRollout<M>>;

/** A program's run, as its service says it. */
export type ProgramState = { state: 'running' } | ProgramEnd;

export interface ProgramEnd {
  state: 'ended';
  exit: { code: number | null; signal: string | null; tail: string };
  submission: string | null;
  reward: number | null;
  rewards: Record<string, number>;
  metadata: ForeignObject | null;
  result?: AgentResult;
  /** Why a life that failed did, if its service knows better than its exit. */
  failure?: Fault;
  /** The end, which depends on what was sampled; absent: it does not. */
  settle?: (played: Conversation) => Promise<ProgramEnd>;
}

export interface Conversation {
  /** In order. Throws the faults of a generation service, which decodes them. */
  calls: () => Promise<PlayedCall[]>;
}

export type AgentResult = Omit<Extract<Entry, { kind: 'result' }>, 'kind'>;

export const bareEnd = (exit: Partial<ProgramEnd['exit']>): ProgramEnd => ({
  state: 'ended',
  exit: { code: null, signal: null, tail: '', ...exit },
  submission: null,
  reward: null,
  rewards: {},
  metadata: null,
});

export interface ProgramTask {
  /** The URL of the policy, with `/v1`. */
  base_url: string;
  key: string;
  prompt: string;
  message_log: EnvironmentMessage[];
  metadata: ForeignObject;
}

export interface ProgramRules {
  /** In force from a rollout's start to its end. */
  program: LineOf<'start'>['program'] & object;
  /** false: it asks a model of its own, and its rollouts have no tokens. */
  asks_policy: boolean;
  restart: 'replay' | 'fresh';
  structured: 'refuse' | 'allow';
  limits: AgentLimits;
  /** How long a program may run, as a duration; null: as long as its rollout. */
  run: string | null;
}

export interface ProgramStart {
  task: ProgramTask;
  /** How often the rollout has failed before; absent: never. */
  failures?: number;
  /** Answers every connection to a listener that only this program reaches, without a key. */
  serve: (door: Server) => void;
  /** Nothing of the program lives any more: from here on all calls are refused. */
  over: () => Promise<void>;
  signal: AbortSignal;
}

/** Runs programs that ask the policy by themselves. All but `wait` throw the faults of a step. `run`: its name. */
export interface Program {
  rules: ProgramRules;
  /** Resolves if it can start one: of any sample, or of that with this `extra_env_info`. */
  health: (signal: AbortSignal, sample?: ForeignObject) => Promise<void>;
  /** Its samples are rows of NeMo Gym; whose sampling settings a row has: its own, or the request's. */
  rows?: { sampling: 'row' | 'request' };
  /** How often the rollout of a sample may fail; absent: as often as its request says. */
  attemptsOf?: (sample: ForeignObject) => number;
  /** Throws `EnvironmentRejected` if another server than one of programs answers there; absent: there is no server. */
  recognise?: (signal: AbortSignal) => Promise<void>;
  /** Runs live as long as their service; false: as long as this process, and another attempt begins another life. */
  outlives: boolean;
  /** Starts it, or finds it. */
  start: (run: string, how: ProgramStart) => Promise<ProgramState>;
  /** Waits for its end for some seconds. `gone`: there is no such run. */
  wait: (
    run: string,
    how: { seconds?: number; signal: AbortSignal },
  ) => Promise<ProgramState | 'gone'>;
  /** The end that an agent of NeMo Gym has journalled by its answer; absent: its programs answer nothing. */
  endOf?: (result: AgentResult, sample: ForeignObject) => ProgramEnd;
  /**
   * Ends a program that goes on behind a limit, and returns what it left. Absent: it is verified before it ends, however
   * long that takes.
   */
  cut?: (run: string, signal: AbortSignal) => Promise<ProgramEnd>;
  /** Ends it. A run that is not there has ended. */
  stop: (run: string, signal: AbortSignal) => Promise<void>;
}

/** An environment as activities see it: it gives metadata back as it came, number by number. */
export type ExactEnvironment = Environment<ForeignObject>;

export interface Environment<M = Metadata> {
  /** Runs programs that play whole rollouts by calls; `step` is never called then. */
  readonly program?: Program;
  /** Throws `EnvironmentUnavailable` or `EnvironmentRejected` faults; anything else thrown is `EnvironmentFailed`. */
  step(turn: Turn<M>, context: StepContext): Promise<TurnAnswer<M>>;
  /** A step must not be played twice: it is journalled before it is sent, and its answer before anything else. */
  readonly steps_once?: true;
  /**
   * Opens a session for one rollout; absent, or null: it needs none. May be called more than once. A step
   * that throws `EnvironmentStateLost` ends a life, and the rollout starts over with a new session. If a step
   * throws `EnvironmentUnavailable`, the same step may be sent again.
   */
  begin?(
    sample: { message_log: EnvironmentMessage[]; metadata: M },
    context: SessionContext & Pick<StepContext, 'share'>,
  ): Promise<Beginning<M> | null>;
  /** false: it is known to have none. */
  mayBegin?(): boolean;
  /**
   * Ends the session, even one whose `begin` was never answered: then `metadata` is the sample's. Returns true if there
   * was something to end. May be called more than once.
   */
  end?(metadata: M, context: SessionContext): Promise<boolean>;
  /** Metrics over the finished rollouts of this environment, in input order; absent or null: none. */
  globalPostProcessAndMetrics?(
    rollouts: FinishedRollouts<M>,
    signal: AbortSignal,
  ): Promise<Record<string, number> | null>;
  /** Why a sample's `extra_env_info` cannot be played; absent: a step finds it. Asked at planning. */
  sampleProblems?(metadata: M, context: { is_standard: boolean }): Problem[];
  /**
   * Under `standard`, of what only its processes can tell: asked at planning where this worker has them, of as many
   * samples as a few seconds allow; a step finds the others. Throws the faults of a step.
   */
  askAboutSample?(metadata: M, signal: AbortSignal): Promise<Problem[]>;
  /** Resolves if steps can be played; throws the same faults as a step. */
  health?(signal: AbortSignal): Promise<void>;
  close?(): Promise<void>;
}

/** The names of calls and sessions, for environments that several deployments may share. */

/** Headers of a call: its key, whose it is, and in which play of its batch. */
export const namingHeaders = ({
  idempotency_key,
  deployment,
  play,
}: Named): Record<string, string> => ({
  'idempotency-key': idempotency_key,
  ...(deployment !== undefined && { 'rollout-deployment': deployment }),
  ...(play !== undefined && { 'rollout-play': play }),
});

/** Shared by begin and end of one session: `<rollout_id>/<life>/<deployment>`. */
export const sessionOf = ({ idempotency_key, deployment }: Named): string =>
  named(idempotency_key.replace(/(?:begin|end)-(\d+)$/, '$1'), deployment);

/** Two deployments may use one name. */
export const named = (name: string, deployment: string | undefined): string =>
  deployment === undefined ? name : `${name}/${deployment}`;
