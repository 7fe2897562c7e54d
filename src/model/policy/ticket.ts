import { z } from 'zod';
import { REPLICA_NEEDS, REPLICA_STATES } from '../workflow-safe/policy.js';
import { Holder } from './holder.js';
import { Begin } from './transfer.js';

/** A transfer as the record has it: who may put weights into which engines, under which version. */

const TicketEngine = z.object({
  url: z.string(),
  /** Engines of one collective fail together. */
  group: z.int(),
  world_size: z.int(),
  rank_offset: z.int(),
  /** By which weights are sent to it; null: it does not say it. */
  backend: z.string().nullable().default(null),
  /** Before the ticket. An engine that nobody touched goes back to it. */
  was: z.object({
    state: z.enum(REPLICA_STATES),
    needs: z.enum(REPLICA_NEEDS).nullable(),
    /** What the engine said of its weights; null: nothing. */
    label: z.string().nullable(),
  }),
  /** Its logprobs before the transfer; null: it could not be asked. */
  before: z.array(z.number()).nullable(),
  /** It has left the service, or drains: the ticket goes on without it. */
  left: z.boolean().default(false),
});
export type TicketEngine = z.infer<typeof TicketEngine>;

export const Ticket = z.object({
  nonce: z.string(),
  version: z.int(),
  ...Begin.pick({
    holder: true,
    mode: true,
    cache: true,
    quorum: true,
    probe: true,
    tolerance: true,
    same: true,
    stall_limit: true,
    code: true,
    own_label: true,
  }).shape,
  /** Both in milliseconds since 1970. */
  began_at: z.number(),
  paused_until: z.number(),
  /** Names engines, places and groups: a collective that was made for another fleet is not for this one. */
  fleet: z.string(),
  engines: z.array(TicketEngine),
  /** `finish` has begun: an engine may have its final label. */
  finishing: z.boolean().default(false),
});
export type Ticket = z.infer<typeof Ticket>;

/** A ticket that is no longer in force. Whoever has it is refused for ever. */
const PastTicket = z.object({
  nonce: z.string(),
  version: z.int(),
  holder: Holder,
  /** What ended it. */
  why: z.string(),
});

export const Transfers = z.object({
  open: Ticket.nullable().default(null),
  /** The last one that ended: its collective may be used again if it succeeded. */
  last: z
    .object({
      nonce: z.string(),
      version: z.int(),
      fleet: z.string(),
      holder: Holder,
      is_whole: z.boolean(),
    })
    .nullable()
    .default(null),
  past: z.array(PastTicket).default([]),
});
export type Transfers = z.infer<typeof Transfers>;

export const NO_TRANSFERS: Transfers = { open: null, last: null, past: [] };

/** What an engine says of its weights while an update is under way. No token with it has a version. */
export const inTransit = (version: number, nonce: string): string => `${version}?${nonce}`;
export const isInTransit = (label: string): boolean => label.includes('?');
