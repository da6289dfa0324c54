# Homebrew formula of mlxserve; `make release` fills in version and digest.
class Mlxserve < Formula
  desc "Inference server for language models, on the CPU"
  homepage "file://README.md"
  url "file://#{ENV.fetch("MLXSERVE_ARCHIVES", Dir.pwd)}/@NAME@.tar.gz"
  version "@VERSION@"
  sha256 "@SHA256@"
  license "MIT"

  def install
    bin.install "mlxserve"
    man1.install "mlxserve.1"
    bash_completion.install "completions/mlxserve.bash" => "mlxserve"
    zsh_completion.install "completions/_mlxserve"
    fish_completion.install "completions/mlxserve.fish"
  end

  service do
    run [opt_bin/"mlxserve", "serve"]
    keep_alive crashed: true
    log_path var/"log/mlxserve.log"
    error_log_path var/"log/mlxserve.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/mlxserve --version")
  end
end
