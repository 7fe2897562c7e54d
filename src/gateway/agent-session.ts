import type { Server } from 'node:net';
import type { AgentLimits } from '../model/calls/limits.js';
import type { RolloutSettings, Entry } from '../model/journal.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import type { Parsers } from '../model/calls/parsers/read-answer.js';
import type { Call, Pool, Waits } from '../sampling/call.js';
import type { RenderConversation } from './play/engine.js';
import type { Standing } from './standing.js';

export type { AgentLimits };

/** What the gateway of a worker and the activity that plays an agent know of each other. */

export interface Gateway {
  /** Where programs reach all its sessions, with `/v1`. */
  readonly base_url: string;
  /**
   * Opens the life's address, and tells other workers that it is here. The journal has its `life` line, synced. Throws a
   * `StoreFault` if the journal is another's.
   */
  open: (playing: PlayedAgent) => Promise<AgentSession>;
  close: () => Promise<void>;
}

export interface AgentSession extends Pick<
  Standing,
  'overstays' | 'broken' | 'ourFault' | 'misfit'
> {
  /** Ends in `/v1`. */
  base_url: string;
  key: string;
  /** Answers every connection to this listener, which only the life's programs reach, without a key, until the end. */
  serve: (door: Server) => void;
  /**
   * Refuses further calls (`over`: 410, the rollout has ended; `moved`: 503, another attempt answers soon), ends the
   * generations in progress and resolves when nothing of it appends to the journal any longer.
   */
  end: (why: 'over' | 'moved') => Promise<void>;
}

export interface AgentJournal {
  readonly writer: string;
  readonly trajectory: Trajectory;
  append: (entry: Entry) => Promise<void>;
  /** Resolves when what was appended is stored and still ours; else throws a `StoreFault`. */
  stored: () => Promise<void>;
  sync: () => Promise<void>;
}

/** How calls are answered, by the environment's settings. */
export interface CallSettings extends Parsers {
  history: 'append' | 'template';
  structured: 'allow' | 'refuse';
  role_map: Readonly<Record<string, string>>;
  limits: AgentLimits;
}

export interface PlayedAgent {
  rollout_id: string;
  journal: AgentJournal;
  settings: CallSettings;
  /** The batch's settings, in force now. */
  generation: () => RolloutSettings;
  pool: Pool;
  waits: Waits;
  sharer: Call['sharer'];
  seed: (at: { turn: number; inherited: number }) => number | null;
  eos_ids: Call['eos_ids'];
  /** Both throw the faults of a generation service. */
  render: RenderConversation;
  detokenize: (token_ids: readonly number[]) => Promise<string>;
  /** Counts a fault of a call in the journal. Returns it as it is judged: to be tried again, or final. */
  failed: (fault: unknown, turn: number) => Promise<unknown>;
  /** Aborts when the activity ends: nothing is sampled or shown from then on. */
  signal: AbortSignal;
}

/** Which worker answers which rollout, as all workers of a store know it. */
export interface Answerers {
  /** Records that this worker answers it. Throws as `stillOurs`: a loser of the journal never replaces its successor. */
  take: (rollout_id: string, answerer: NewAnswerer) => Promise<void>;
  /** The newest; null: none is known. */
  find: (rollout_id: string) => Promise<AnswererFact | null>;
  /** The rollout is over: its programs ask no more. */
  leave: (rollout_id: string, answerer: AnswererFact) => Promise<void>;
  isOver: (rollout_id: string) => Promise<boolean>;
}

export interface AnswererFact {
  /** The URL of its gateway, without `/v1`. */
  url: string;
  writer: string;
}

export interface NewAnswerer extends AnswererFact {
  /** Throws a `StoreFault` if the journal is another's. */
  stillOurs: () => Promise<void>;
}
