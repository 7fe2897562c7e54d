import { chmod, mkdtemp, readdir, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { firstFreePort } from '../../../dev/free-port.js';
import type { KeptWorker } from '../../bed/kept-worker.js';
import type { RecoveryBedOptions } from '../../bed/bed.js';
import { createEndings } from '../../bed/endings.js';
import type { AgentService } from '../../../test/servers/agent-service.js';
import { startAgentService } from '../../../test/servers/agent-service.js';
import type { StoreKind, StoredBed } from '../stores.js';
import { OTHER_WORKER, STORE, startStoredBed, WORKER } from '../stores.js';
import type { TemporaryDirectory } from '../../bed/temporary-directory.js';
import type { WorkerConfig } from '../../bed/worker.js';
import { play } from './agent.js';
import type { RealAgent } from './real.js';
import { environmentsOf, HEARTBEAT_TIMEOUT_S, SIMULATOR, worthOf } from './workload.js';

/** What agents play on: a worker for the workflows, another with the gateway that starts them, and their service. */
export interface AgentsBed extends StoredBed {
  worker: KeptWorker;
  gateway: KeptWorker;
  service: AgentService;
  /** Of the agents. */
  logs: string;
  /** Folders that programs have left behind. */
  folders: () => Promise<string[]>;
  end: () => Promise<void>;
}

const GATEWAY = OTHER_WORKER;

export async function startAgentsBed(
  store: StoreKind,
  { temporary, real }: { temporary: TemporaryDirectory; real: readonly RealAgent[] },
): Promise<AgentsBed> {
  const logs = path.join(temporary.path, 'logs');
  const service = await startAgentService(async ({ task, run }) => {
    const sum = Number(await play({ ...task, logs }));
    return { reward: worthOf(sum), metadata: { run } };
  });
  const port = await firstFreePort(0);
  const options: Omit<RecoveryBedOptions, 'store' | 'env'> = {
    name: 'chaos-agents',
    own_server: true,
    simulator: SIMULATOR,
    environments: Object.assign(
      environmentsOf({ logs, service: service.url }),
      ...real.map((agent) => agent.environments),
    ) as WorkerConfig['environments'],
    roles: (worker) => (worker === GATEWAY ? ['environment'] : ['workflow', 'generation']),
    worker: {
      heartbeat_timeout: `${HEARTBEAT_TIMEOUT_S}s`,
      // Programs of the service live on when it is killed, and find the next one at the same address.
      gateway: { listen: `127.0.0.1:${port}` },
    },
    generation: { first_token_timeout: '10s', idle_timeout: '5s' },
  };
  const endings = createEndings();
  endings.add(temporary.remove);
  endings.add(service.close);
  try {
    const stored = await startStoredBed(store, options);
    endings.add(stored.bed.end);
    const worker = await stored.bed.startWorker(STORE, WORKER);
    const gateway = await stored.bed.startWorker(STORE, GATEWAY);
    const folders = async (): Promise<string[]> =>
      (await readdir(temporary.path)).filter((name) => /^rollout-(program|agent|code)-/.test(name));
    return { ...stored, worker, gateway, service, logs, folders, end: endings.end };
  } catch (error) {
    await endings.end();
    throw error;
  }
}

/** Whatever this process and those that it starts put into temporary files is there. */
export async function ownTemporaryFolder(): Promise<TemporaryDirectory> {
  const before = tmpdir();
  const folder = await realpath(await mkdtemp(path.join(before, 'chaos-agents-')));
  // PostgreSQL runs as another user if this one is root.
  await chmod(folder, 0o755);
  process.env['TMPDIR'] = folder;
  return {
    path: folder,
    remove: async () => {
      process.env['TMPDIR'] = before;
      if ((process.env['KEEP_TEST_FILES'] ?? '') === '')
        await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
