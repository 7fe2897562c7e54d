import type { Named } from './environment.js';

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
