/** A Gym agent server as its own process: `node gym-agent-main.js <port> <script.json> <log>`. */
import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import type { AgentScript } from './gym-agent-script.js';
import { startGymAgentServer } from './gym-agent-server.js';

const [, , port = '0', scriptFile = '', log_file = ''] = process.argv;
const script = JSON.parse(readFileSync(scriptFile, 'utf8')) as z.input<typeof AgentScript>;
const server = await startGymAgentServer({ script, port: Number(port), log_file });
console.log(server.url);
// It ends with its parent, in any way.
process.stdin.on('end', () => process.exit(0)).resume();
