/** `--help`, and Gym's `+help=true` and `+h=true`. */
export const asksForHelp = (args: readonly string[]): boolean =>
  args.some((argument) => /^(?:-h|--help|\+{0,2}(?:h|help)=(?:true|1|yes|on))$/i.test(argument));
