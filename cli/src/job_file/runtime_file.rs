//! The shapes of parts that make up a run's task.

use super::form::{Containerizer, ImageFormat, PortNumber, Protocol, Time, Truth, Visibility, Whole};
use super::scalar::Scalar;
use super::shape::shapes;

shapes! {
    /// `{name: team/database, key: password}`.
    SecretFile {
        /// Its name in the hosts' secret store.
        name: Scalar,
        /// The key within it, where it has several values.
        key: Option<Scalar>,
    }

    /// `{uri: https://example.com/app.tar.gz, cache: true}`.
    UriFile {
        /// `http`, `https`, `ftp`, `ftps`, `file:///`, what the hosts' Hadoop client knows, or an absolute path on the host.
        uri: Scalar,
        /// Whether an archive is unpacked.
        extract: Option<Scalar<Truth>>,
        /// Whether it is made executable; it is not unpacked then.
        executable: Option<Scalar<Truth>>,
        /// Whether the host keeps it for other runs.
        cache: Option<Scalar<Truth>>,
        /// Its name in the sandbox; the last part of the URI when it is left out.
        output_file: Option<Scalar>,
    }

    /// `{type: docker, image: team/web, network: bridge}`.
    ContainerFile {
        /// Who runs it: Mesos itself, or the hosts' Docker.
        #[serde(rename = "type")]
        containerizer: Option<Scalar<Containerizer>>,
        /// Its image; with `docker` needed.
        image: Option<Scalar>,
        /// Format of the image.
        image_format: Option<Scalar<ImageFormat>>,
        /// Whether it is asked for anew even if the host has it.
        force_pull: Option<Scalar<Truth>>,
        /// `host`, `bridge` and `none` (docker only), or the name of a network of the hosts.
        network: Option<Scalar>,
        /// Its host name, where it has a network of its own.
        hostname: Option<Scalar>,
        /// Folders and files mounted into it.
        volumes: Option<Vec<VolumeFile>>,
    }

    /// `{path: /data, host_path: /srv/data, read_only: true}`: just one of `host_path`, `sandbox_path` and `secret`.
    VolumeFile {
        /// Where the container sees it.
        path: Scalar,
        /// Whether it cannot be written.
        read_only: Option<Scalar<Truth>>,
        /// An absolute path of the host.
        host_path: Option<Scalar>,
        /// A folder of the sandbox, empty at the start.
        sandbox_path: Option<Scalar>,
        /// A file with a value of the secret store; type `mesos` only.
        secret: Option<SecretFile>,
    }

    /// `{name: http, port: 8080}`.
    PortFile {
        /// Its name within the group; `http-admin` is `PORT_HTTP_ADMIN` to the run.
        name: Scalar,
        /// Exactly this one of the host; any that is free when it is left out.
        port: Option<Scalar<PortNumber>>,
        /// Where a container with a network of its own listens; as the host's when it is left out.
        container_port: Option<Scalar<PortNumber>>,
        /// Its protocol.
        protocol: Option<Scalar<Protocol>>,
        /// Who is to find it.
        visibility: Option<Scalar<Visibility>>,
    }

    /// `{port: http, path: /up}`: a page with a status of 200 to 399 is good.
    HttpFile {
        /// Name of one of the group's ports, or a number.
        port: Scalar,
        /// The page's path; `/` when it is left out.
        path: Option<Scalar>,
        /// Over TLS, without looking at the certificate; in health checks only.
        tls: Option<Scalar<Truth>>,
    }

    /// `{port: http}`.
    TcpFile {
        /// Name of one of the group's ports, or a number.
        port: Scalar,
    }

    /// `{tcp: {port: http}, interval: 5s}`: just one of `command`, `http` and `tcp`.
    ProbeFile {
        /// A line for the shell, within the container; status 0 is good.
        command: Option<Scalar>,
        /// A page that is asked for.
        http: Option<HttpFile>,
        /// A connection that is opened.
        tcp: Option<TcpFile>,
        /// From the start to the first time.
        delay: Option<Scalar<Time>>,
        /// From one time to the next.
        interval: Option<Scalar<Time>>,
        /// Longest wait for an answer.
        timeout: Option<Scalar<Time>>,
    }

    /// `{http: {port: http}, grace: 30s, failures: 3}`: just one of `command`, `http` and `tcp`.
    HealthFile {
        /// A line for the shell, within the container; status 0 is good.
        command: Option<Scalar>,
        /// A page that is asked for.
        http: Option<HttpFile>,
        /// A connection that is opened.
        tcp: Option<TcpFile>,
        /// From the start to the first time.
        delay: Option<Scalar<Time>>,
        /// From one time to the next.
        interval: Option<Scalar<Time>>,
        /// Longest wait for an answer.
        timeout: Option<Scalar<Time>>,
        /// Failures do not count for so long, until the first success.
        grace: Option<Scalar<Time>>,
        /// So many in a row end the run.
        failures: Option<Scalar<Whole>>,
    }
}
