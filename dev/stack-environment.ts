/**
 * The environment of the parts of the local stack. Settings of the user's shell for another Temporal (an address, a
 * profile, a key) must not reach them. `TEMPORAL_CLI_PATH` stays: it names a program, not a server.
 */
export function stackEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(
    ([name]) => !name.startsWith('TEMPORAL_') || name === 'TEMPORAL_CLI_PATH',
  );
  const noProxy = [env['no_proxy'] ?? env['NO_PROXY'], '127.0.0.1', 'localhost']
    .filter((hosts) => hosts !== undefined && hosts !== '')
    .join(',');
  return {
    ...Object.fromEntries(kept),
    // No file: otherwise SDKs and CLI would read the user's temporal.toml. (An empty file breaks the SDK's reader.)
    TEMPORAL_CONFIG_FILE: '/nonexistent/temporal.toml',
    NO_PROXY: noProxy,
    no_proxy: noProxy,
  };
}
