import type { TestContext } from 'node:test';
import { ApplicationFailure } from '@temporalio/activity';
import { startSimulator } from '../../simulator/server.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import type { Gateway } from '../../src/gateway/agent-session.js';
import { createGateway } from '../../src/gateway/gateway.js';
import type { GatewayTimes } from '../../src/gateway/times.js';
import type { TurnProgress } from '../../src/activities/contract.js';
import type { JournalLine } from '../../src/model/journal.js';
import type { AgentService, ServedProgram } from '../servers/agent-service.js';
import { startAgentService } from '../servers/agent-service.js';
import type { AttemptResult, Bench, Parts } from './activity-bench.js';
import { AT, activityBench } from './activity-bench.js';
import { bareContext } from './environment-context.js';
import { BATCH, REF, requestOf, sampleOf } from './temporary-store.js';

/** One rollout of a program at a service, played attempt by attempt over a real gateway and a simulated engine. */

type Lines = <K extends JournalLine['kind']>(
  kind: K,
) => Promise<Extract<JournalLine, { kind: K }>[]>;

export interface ProgramBench extends Bench {
  agents: AgentService;
  /** Of its gateway. */
  base_url: () => string;
  /** Opens the rollout. */
  opened: () => Promise<void>;
  /** One attempt. */
  plays: () => Promise<AttemptResult<TurnProgress>>;
  /** Attempts until the rollout ends. Throws what fails for good. */
  playsOn: () => Promise<TurnProgress>;
  /** The rollout is answered at another address from the next attempt on. */
  moves: () => Promise<void>;
  lines: Lines;
  /** Of the engine, as the simulator names them; null: no more. */
  faults: (fault: object | null) => Promise<void>;
}

export interface ProgramParts extends Parts {
  program: ServedProgram;
  /** Beside `kind` and `run.url`. */
  agent?: object;
  request?: Record<string, unknown>;
  sample?: Record<string, unknown>;
  simulator?: NonNullable<Parameters<typeof startSimulator>[0]>['settings'];
  times?: Partial<GatewayTimes>;
}

const MOST_ATTEMPTS = 8;

export async function programBench(
  t: TestContext,
  {
    program,
    agent = {},
    request = {},
    sample = {},
    simulator: settings = {},
    times = {},
    ...parts
  }: ProgramParts,
): Promise<ProgramBench> {
  const agents = await startAgentService(program);
  const engine = await startSimulator({
    settings: { thinking_tokens: 0, seed: 3, ...settings },
    port: 0,
  });
  const service = createVllmService({
    base_url: `${engine.url}/v1`,
    api_key: null,
    first_token_timeout_ms: 10_000,
    idle_timeout_ms: 10_000,
  });
  const parsed = EnvironmentSettings.parse({ kind: 'agent', run: { url: agents.url }, ...agent });
  const task = await createEnvironment(parsed, bareContext());
  const listens = (): Promise<Gateway> =>
    createGateway({
      listen: '127.0.0.1:0',
      secret: 'of tests',
      times: { parked_ms: 300, retry_ms: 20, ...times },
    });
  const gateways = [await listens()];
  const bench = await activityBench(t, {
    replicas: [service],
    model: 'simulator',
    plays_on: true,
    ...parts,
    environments: { task, ...parts.environments },
    deployment: { heartbeat_timeout_ms: 3000, ...parts.deployment },
    // As it is when an attempt begins.
    gateway: {
      get base_url() {
        return gateways.at(-1)!.base_url;
      },
      open: (playing) => gateways.at(-1)!.open(playing),
      close: () => Promise.resolve(),
    },
  });
  t.after(async () => {
    await agents.close();
    for (const one of gateways) await one.close();
    await task.close?.();
    await service.close();
    await engine.close();
  });
  let number = 0;
  let heartbeatDetails: unknown;
  const plays: ProgramBench['plays'] = async () => {
    number += 1;
    const played = await bench.run('playTurns', { input: AT, number, heartbeatDetails });
    heartbeatDetails = played.heartbeats.at(-1) ?? heartbeatDetails;
    return played;
  };
  return {
    ...bench,
    agents,
    base_url: () => gateways.at(-1)!.base_url,
    plays,
    opened: async () => {
      const generation = { max_new_tokens: 32 };
      const samples = [sampleOf('Say: yes', sample)];
      await bench.store.createBatch({
        batch_id: BATCH,
        request: requestOf({ max_seq_len: 4096, generation, ...request }),
        samples,
      });
      const { error } = await bench.run('openRollout', { input: REF });
      if (error !== undefined && !isRetried(error)) throw error as Error;
      number = 1;
    },
    playsOn: async () => {
      for (let left = MOST_ATTEMPTS; left > 0; left--) {
        const { result, error } = await plays();
        if (result !== undefined) return result;
        if (!isRetried(error)) throw error as Error;
      }
      throw new Error(`the rollout has not ended in ${MOST_ATTEMPTS} attempts`);
    },
    faults: async (fault) => {
      const init =
        fault === null ? { method: 'DELETE' } : { method: 'POST', body: JSON.stringify(fault) };
      const { status } = await fetch(`${engine.url}/simulator/faults`, init);
      if (status !== 200)
        throw new Error(`the simulator answered ${status} to ${JSON.stringify(fault)}`);
    },
    moves: async () => {
      gateways.push(await listens());
    },
    lines: (async (kind: JournalLine['kind']) =>
      (await bench.journalLines().catch(() => [])).filter((line) => line.kind === kind)) as Lines,
  };
}

const isRetried = (error: unknown): boolean =>
  error instanceof ApplicationFailure && error.nonRetryable !== true;
