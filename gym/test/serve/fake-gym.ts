import { writeFile } from 'node:fs/promises';
import path from 'node:path';

/**
 * What `gym env start` is to its caller: a process that starts a server, here head server and agent in one, in a second process,
 * and that ends it when it is interrupted. Its first argument is the head server's port, the second an agent that never answers.
 */
const SOURCE = `
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { appendFileSync } from 'node:fs';
const [, , port, silent, role] = process.argv;
if (role === undefined) {
  const server = spawn(process.execPath, [process.argv[1], port, silent, 'server'], { stdio: 'inherit' });
  appendFileSync('pids', process.pid + ' ' + server.pid + ' ');
  process.on('SIGINT', () => {
    appendFileSync('ended', 'SIGINT');
    server.on('exit', () => process.exit(0));
    server.kill('SIGTERM');
  });
} else {
  console.log('serving');
  process.on('SIGINT', () => undefined);
  const agent = (at) => 'responses_api_agents: {simple_agent: {host: 127.0.0.1, port: ' + at + '}}';
  const yaml = 'simple:\\n  ' + agent(port) + '\\n' + (silent === '' ? '' : silent + ':\\n  ' + agent(1) + '\\n');
  setTimeout(() => createServer((request, response) => {
    response.statusCode = request.url === '/global_config_dict_yaml' ? 200 : 404;
    response.end(JSON.stringify(yaml));
  }).listen(Number(port), '127.0.0.1'), 200);
}
`;

/** The command that runs it; it writes files \`pids\` and \`ended\` to the working directory. */
export async function fakeGym(
  folder: string,
  { port, silent = '' }: { port: number; silent?: string },
): Promise<string> {
  const file = path.join(folder, 'fake-gym.mjs');
  await writeFile(file, SOURCE);
  return `'${process.execPath}' '${file}' ${port} '${silent}'`;
}
