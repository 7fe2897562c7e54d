import { createHash } from 'node:crypto';
import type { GenerationService } from './generation-service.js';

/** The replicas of a service: a rollout sticks to one, whoever asks, so that its prefix cache is warm and no table can be lost. */
export interface Replicas {
  readonly all: readonly GenerationService[];
  pick: (sessionId: string) => GenerationService;
}

/** Rendezvous hashing: a replica that joins or leaves moves only its own rollouts. */
export function createReplicas(
  all: readonly [GenerationService, ...GenerationService[]],
): Replicas {
  return {
    all,
    pick: (sessionId) =>
      all.reduce((best, replica) =>
        weight(replica, sessionId) > weight(best, sessionId) ? replica : best,
      ),
  };
}

const weight = ({ replica }: GenerationService, sessionId: string): string =>
  createHash('sha1').update(`${replica}\n${sessionId}`).digest('hex');
